"""Mixers: what the agents of a team think of their own actions in, what the team thinks of all of them out."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from shoal.models.layers import Dense, orthogonal

GAIN = 0.1
"""How much the state first says, as in the heads of action values."""


class Sum(nn.Module):
    """Value decomposition (Sunehag et al. 2018): the team's value is the sum of its agents'."""

    def forward(self, utilities: Tensor, state: Tensor | None) -> Tensor:
        """`[..., agents]`, whatever the global state is -> `[...]`."""
        return utilities.sum(-1)


class Monotonic(nn.Module):
    """QMIX (Rashid et al. 2018, figure 2): two layers whose weights the global state gives, and which are never negative.

    So a team's value never falls when an agent's rises: what is best for each is best for all. It starts close to `Sum`,
    on whatever scale the state is: a value that is only there by chance fades by the discount at each copy of the target network.
    """

    def __init__(self, agents: int, state_width: int, *, embedding: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.agents, self.embedding = agents, embedding
        start = embedding**-0.5  # of both layers: `embedding` products of two add up to a slope of 1
        self.weights_in = _hyper(state_width, hidden, agents * embedding, start)
        self.bias_in = orthogonal(nn.Linear(state_width, embedding), GAIN)
        self.weights_out = _hyper(state_width, hidden, embedding, start)
        self.bias_out = _hyper(state_width, [embedding], 1, 0.0)

    def forward(self, utilities: Tensor, state: Tensor) -> Tensor:
        """`[..., agents]`, `[..., state]` -> `[...]`."""
        weights = self.weights_in(state).abs().unflatten(-1, (self.agents, self.embedding))
        inner = functional.elu((utilities.unsqueeze(-1) * weights).sum(-2) + self.bias_in(state))
        total: Tensor = (inner * self.weights_out(state).abs()).sum(-1) + self.bias_out(state).squeeze(-1)
        return total


def _hyper(state_width: int, hidden: Sequence[int], width: int, start: float) -> nn.Sequential:
    """A network that gives a layer's weights, at first about `start` in every state."""
    body = Dense(state_width, hidden, "relu")
    last = orthogonal(nn.Linear(body.features, width), GAIN)
    nn.init.constant_(last.bias, start)
    return nn.Sequential(body, last)
