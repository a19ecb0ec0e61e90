"""Twin critics: what an action is worth, told twice, so that the lesser of both can be believed."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from shoal.algorithms.inputs import Joined, central_section
from shoal.api.sight import OWN
from shoal.base.arithmetic import Network
from shoal.base.config import Named
from shoal.base.tree import Tree
from shoal.models import build_model
from shoal.models.layers import orthogonal
from shoal.models.mlp import MLPModel

ACTION = "action"


class Critic(nn.Module):
    """A model of its own under one value per output: `[R, B, ...]` -> `[R, B, outputs]`."""

    def __init__(self, section: Named, space: Space[Any], outputs: int) -> None:
        super().__init__()
        self.body = build_model(section, space)
        self.value = orthogonal(nn.Linear(self.body.features, outputs), 0.1)

    def forward(self, seen: Tree, first: Tensor) -> Tensor:
        values: Tensor = self.value(self.body(seen, None, first)[0])
        return values


class Twins(nn.Module):
    """Two critics that start apart. `action`: the space of the numbers they are shown beside the observation, if any."""

    def __init__(self, section: Named, observation: Space[Any], action: Space[Any] | None, outputs: int) -> None:
        super().__init__()
        self.joined = None if action is None else Joined({OWN: observation, ACTION: action})
        space = observation if self.joined is None else self.joined.space
        own = section if self.joined is None else central_section(section, space, recurrent=False)
        pair = [Critic(own, space, outputs) for _ in range(2)]
        self.pair = nn.ModuleList([Stacked(*pair)] if Stacked.suits(pair[0]) else pair)

    def forward(self, observation: Tree, action: Tensor | None, first: Tensor) -> Tensor:
        """`[R, B, ...]`, numbers `[R, B, K]` from -1 to 1 -> `[2, R, B, outputs]`."""
        seen = observation if self.joined is None else self.joined({OWN: observation, ACTION: action})
        if len(self.pair) == 1:
            values: Tensor = self.pair[0](seen)
            return values
        return torch.stack([critic(seen, first) for critic in self.pair])


class Stacked(Network):
    """Two dense critics as one: every layer is one product of matrices for both. On small networks calls are what costs."""

    axes_before = 1

    def __init__(self, one: Critic, other: Critic) -> None:
        super().__init__()
        assert isinstance(one.body, MLPModel)
        self.vector, self.activation = one.body.vector, one.body.dense.activation
        layers = list(zip(_linears(one), _linears(other), strict=True))
        self.weights = nn.ParameterList(torch.stack([a.weight.t(), b.weight.t()]).detach() for a, b in layers)
        self.biases = nn.ParameterList(torch.stack([a.bias, b.bias]).unsqueeze(1).detach() for a, b in layers)

    @staticmethod
    def suits(critic: Critic) -> bool:
        """Dense layers and nothing else; a subclass may do what it likes."""
        return type(critic.body) is MLPModel and critic.body.dense.norms is None

    def forward(self, seen: Tensor) -> Tensor:
        """`[R, B, ...]` -> `[2, R, B, outputs]`."""
        rows = self.vector(seen.flatten(0, 1))
        x, last = rows.expand(2, *rows.shape), len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if i < last:
                x = self.activation(x)
        return x.view(2, *seen.shape[:2], -1)


def _linears(critic: Critic) -> list[nn.Linear]:
    assert isinstance(critic.body, MLPModel)
    linears = (*critic.body.dense.linears, critic.value)
    return [linear for linear in linears if isinstance(linear, nn.Linear)]
