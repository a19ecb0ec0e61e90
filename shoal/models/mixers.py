"""Mixers: what the agents of a team think of their own actions in, what the team thinks of all of them out."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from shoal.models.layers import Dense


class Sum(nn.Module):
    """Value decomposition (Sunehag et al. 2018): the team's value is the sum of its agents'."""

    def forward(self, utilities: Tensor, state: Tensor | None) -> Tensor:
        """`[..., agents]`, whatever the global state is -> `[...]`."""
        return utilities.sum(-1)


class Monotonic(nn.Module):
    """QMIX (Rashid et al. 2018, figure 2): two layers whose weights the global state gives, and which are never negative.

    So a team's value never falls when an agent's rises: what is best for each is best for all.
    """

    def __init__(self, agents: int, state_width: int, *, embedding: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.agents, self.embedding = agents, embedding
        self.weights_in = _hyper(state_width, hidden, agents * embedding)
        self.bias_in = nn.Linear(state_width, embedding)
        self.weights_out = _hyper(state_width, hidden, embedding)
        self.bias_out = _hyper(state_width, [embedding], 1)

    def forward(self, utilities: Tensor, state: Tensor) -> Tensor:
        """`[..., agents]`, `[..., state]` -> `[...]`."""
        weights = self.weights_in(state).abs().unflatten(-1, (self.agents, self.embedding))
        inner = functional.elu((utilities.unsqueeze(-1) * weights).sum(-2) + self.bias_in(state))
        total: Tensor = (inner * self.weights_out(state).abs()).sum(-1) + self.bias_out(state).squeeze(-1)
        return total


def _hyper(state_width: int, hidden: Sequence[int], width: int) -> nn.Sequential:
    """A network that gives a layer's weights."""
    body = Dense(state_width, hidden, "relu")
    return nn.Sequential(body, nn.Linear(body.features, width))
