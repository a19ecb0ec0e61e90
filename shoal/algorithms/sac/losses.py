"""SAC's values and losses. Pure functions; `values` are those of both critics, `[2, ...]`."""

from __future__ import annotations

import torch
from torch import Tensor


def soft_value(values: Tensor, log_prob: Tensor, temperature: Tensor) -> Tensor:
    """Of a sampled action: the lesser critic's value, plus what its surprise is worth (Haarnoja et al. 2018b, eq. 3)."""
    return torch.minimum(*values.unbind(0)) - temperature * log_prob


def soft_value_of_discrete(values: Tensor, log_probs: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """The same as an expectation over all actions (Christodoulou 2019, eq. 10), and the entropy, `[...]` each.

    `[2, ..., n]`, `[..., n]`. Forbidden actions add exactly zero: their probability is zero, their logarithm finite.
    """
    probs = log_probs.exp()
    entropy = -(probs * log_probs).sum(-1)
    return (probs * torch.minimum(*values.unbind(0))).sum(-1) + temperature * entropy, entropy


def critic_loss(errors: Tensor, share: Tensor) -> Tensor:
    """Half the squared errors of both critics, `[2, ...]`, by the share that each row has in the mean (eq. 5)."""
    return 0.5 * (errors.square() * share).sum()


def temperature_loss(log_temperature: Tensor, excess: Tensor) -> Tensor:
    """`excess`: mean entropy above its target. Its sign is the way that the temperature goes down (eq. 18)."""
    return log_temperature.exp() * excess
