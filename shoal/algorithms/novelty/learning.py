"""What learning does with stored arms and novelty. Pure functions of tensors `[R, B]` in the layout of a Fragment."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from shoal.base.device import on_cpu
from shoal.base.transfer import to_device


def intrinsic(novelty: Tensor, terminated: Tensor, truncated: Tensor) -> Tensor:
    """The reward for what a decision led to: the novelty of row t+1.

    0 where the episode ended: after a termination there is nothing to see, and nobody decided on what a truncation left behind,
    so its novelty is not known. A row counts only if row t+1 was decided on, which one more row of `Needs.bootstrap` is for.
    """
    following = torch.cat([novelty[1:], torch.zeros_like(novelty[:1])])
    return torch.where(terminated | truncated, 0.0, following)


def relabelled(arm: Tensor, arms: int, share: float, random: np.random.Generator) -> Tensor:
    """Stored arms as int64 `[R, B]`; a share of the lanes gets another one, drawn alike, for all its rows."""
    played = arm.round().long().clamp(0, arms - 1)
    lanes = arm.shape[1]
    drawn = (torch.from_numpy(random.integers(arms, size=lanes)), torch.from_numpy(random.random(lanes) < share))
    other, changed = drawn if on_cpu(arm) else to_device(drawn, arm.device)
    return torch.where(changed, other, played)


def rewards(reward: Tensor, novelty: Tensor, arm: Tensor, weights: Tensor, *, separate: bool) -> Tensor:
    """To an arm: the environment's reward and its weight times novelty, as one `[R, B]`; or both, each for itself, `[R, B, 2]`."""
    if separate:
        return torch.stack([reward, novelty], -1)
    return reward + weights[arm] * novelty


def of_action(values: Tensor, index: Tensor) -> Tensor:
    """`[R, B, actions, parts]`, `[R, B]` -> `[R, B, parts]`."""
    place = index[..., None, None].expand(*index.shape, 1, values.shape[-1])
    return values.gather(2, place).squeeze(2)
