"""Values of discrete actions: features in, one value per action out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shoal.models.heads.discrete import draw
from shoal.models.heads.head import legal
from shoal.models.layers import orthogonal


class DiscreteValues(nn.Module):
    """`[..., features]` -> `[..., actions]`. Dueling (Wang et al. 2016, eq. 9): a value, and the advantages minus their mean."""

    def __init__(self, features: int, actions: int, *, dueling: bool) -> None:
        super().__init__()
        self.advantage = orthogonal(nn.Linear(features, actions), 0.1)
        self.value = orthogonal(nn.Linear(features, 1), 1.0) if dueling else None

    def forward(self, features: Tensor) -> Tensor:
        advantage: Tensor = self.advantage(features)
        if self.value is None:
            return advantage
        return self.value(features) + advantage - advantage.mean(-1, keepdim=True)


def allowed(mask: Tensor | None) -> Tensor | None:
    """A mask `[..., actions]` that forbids everything belongs to an agent that does not act: there all is allowed."""
    return None if mask is None else mask | ~mask.any(-1, keepdim=True)


def index_of(action: Tensor, start: int, actions: int) -> Tensor:
    """Actions as they were sent -> actions counted from 0.

    Rows that nobody decided on hold anything: they do not count, but they must not point outside.
    """
    return (action - start).clamp(0, actions - 1)


def greedy(values: Tensor, mask: Tensor | None) -> Tensor:
    """The best allowed action, `[..., actions]` -> `[...]`."""
    return legal(values, allowed(mask)).argmax(-1)


def epsilon_greedy(values: Tensor, mask: Tensor | None, noise: Tensor, epsilon: Tensor) -> Tensor:
    """The best action, or with probability `epsilon` any allowed one. `noise`: `[..., 2]` in [0, 1)."""
    even = torch.log_softmax(legal(torch.zeros_like(values), allowed(mask)), -1)
    anything = draw(even, noise[..., 1:]).squeeze(-1)
    return torch.where(noise[..., 0] < epsilon, anything, greedy(values, mask))


def picked(values: Tensor, index: Tensor) -> Tensor:
    """`[..., actions]`, `[...]` -> `[...]`."""
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)
