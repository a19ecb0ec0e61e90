"""Losses and diagnostics. Pure functions of tensors of one shape, `[N]` or `[R, B]`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def clipped_policy_loss(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """PPO's pessimistic bound (Schulman et al. 2017, eq. 7), negated, per entry."""
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def value_loss(value: Tensor, target: Tensor, old_value: Tensor, clip: float | None) -> Tensor:
    """Mean of half the squared error; with `clip`, or that of the value moved at most `clip` from the old one, if worse."""
    if clip is None:
        return 0.5 * functional.mse_loss(value, target)
    near = old_value + (value - old_value).clamp(-clip, clip)
    return 0.5 * torch.maximum((value - target).square(), (near - target).square()).mean()


def approximate_kl(log_ratio: Tensor, ratio: Tensor) -> Tensor:
    """How far the new policy is from the one that acted, per entry: (r - 1) - log r, unbiased, never negative (Schulman 2020)."""
    return ratio - 1.0 - log_ratio


def clipped_losses(
    log_ratio: Tensor, advantage: Tensor, value: Tensor, target: Tensor, old_value: Tensor, clip: float,
    value_clip: float | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """PPO's losses of policy and values, `[]` each; rows in any shape."""
    policy = clipped_policy_loss(log_ratio.exp(), advantage, clip).mean()
    return policy, value_loss(value, target, old_value, value_clip)


def one_pass_losses(weighted: Tensor, value: Tensor, target: Tensor, old_value: Tensor) -> tuple[Tensor, Tensor]:
    """Losses of policy and values, `[]` each; `weighted`: log-probabilities times advantages."""
    return -weighted.mean(), value_loss(value, target, old_value, None)


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 - Var[target - value] / Var[target]: 1 is perfect, 0 is as good as a constant; 0 where targets do not vary."""
    spread = target.var(unbiased=False)
    return torch.where(spread > 0, 1.0 - (target - value).var(unbiased=False) / spread, torch.zeros_like(spread))
