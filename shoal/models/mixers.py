"""Mixers: what the agents of a team think of their own actions in, what the team thinks of all of them out."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from shoal.models.layers import Dense


class Sum(nn.Module):
    """Value decomposition (Sunehag et al. 2018): the team's value is the sum of its agents'."""

    def forward(self, utilities: Tensor, world: Tensor | None) -> Tensor:
        """`[..., agents]`, whatever the world is -> `[...]`."""
        return utilities.sum(-1)


class Monotonic(nn.Module):
    """QMIX (Rashid et al. 2018, figure 2): two layers whose weights the global state gives, and which are never negative.

    So a team's value never falls when an agent's rises: what is best for each is best for all.
    """

    def __init__(self, agents: int, world: int, *, embedding: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.agents, self.embedding = agents, embedding
        self.weights_in = _hyper(world, hidden, agents * embedding)
        self.bias_in = nn.Linear(world, embedding)
        self.weights_out = _hyper(world, hidden, embedding)
        self.bias_out = _hyper(world, [embedding], 1)

    def forward(self, utilities: Tensor, world: Tensor) -> Tensor:
        """`[..., agents]`, `[..., world]` -> `[...]`."""
        weights = self.weights_in(world).abs().unflatten(-1, (self.agents, self.embedding))
        inner = functional.elu((utilities.unsqueeze(-1) * weights).sum(-2) + self.bias_in(world))
        total: Tensor = (inner * self.weights_out(world).abs()).sum(-1) + self.bias_out(world).squeeze(-1)
        return total


def _hyper(world: int, hidden: Sequence[int], width: int) -> nn.Sequential:
    """A network that gives a layer's weights."""
    body = Dense(world, hidden, "relu")
    return nn.Sequential(body, nn.Linear(body.features, width))
