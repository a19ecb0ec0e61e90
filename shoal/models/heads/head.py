"""From features to actions: the contract every head keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from shoal.models.layers import orthogonal

ILLEGAL = -1e9
"""Logit of what a mask forbids. Finite, so that a row where all is forbidden (an idle agent) gives numbers, not NaN."""


class Head(nn.Module, ABC):
    """Turns features `[..., F]` into a distribution over one action space.

    Shapes: parameters `[..., P]`, noise `[..., noise_size]` uniform in [0, 1), actions `[..., *space.shape]` as members
    of the space (int64 or float32), log-probabilities and entropies `[...]`. A mask is bool, True where an action is
    allowed.
    """

    noise_size: int
    """Uniform numbers one decision uses."""

    def __init__(self, features: int, parameters: int, init_gain: float) -> None:
        super().__init__()
        self.linear = orthogonal(nn.Linear(features, parameters), init_gain)

    def forward(self, features: Tensor) -> Tensor:
        """The distribution's parameters."""
        return functional.linear(features, self.linear.weight, self.linear.bias)

    @abstractmethod
    def sample(self, parameters: Tensor, noise: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The action that the noise points to, and its log-probability."""

    @abstractmethod
    def mode(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """The greedy action."""

    @abstractmethod
    def log_prob(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        """Log-probability (or log-density) of an action."""

    @abstractmethod
    def entropy(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """Of the distribution, in nats."""

    @abstractmethod
    def evaluate(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`log_prob` and `entropy` for the price of little more than one: what trainers call."""


def legal(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Logits, those of forbidden actions very low."""
    return logits if mask is None else torch.where(mask, logits, ILLEGAL)


def flat_action(action: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`[..., *shape]` -> `[..., K]`."""
    if len(shape) == 1:
        return action
    return action.flatten(-len(shape)) if shape else action.unsqueeze(-1)


def shaped_action(action: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`[..., K]` -> `[..., *shape]`."""
    if len(shape) == 1:
        return action
    return action.unflatten(-1, shape) if shape else action.squeeze(-1)
