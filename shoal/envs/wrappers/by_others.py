"""Wrappers that others carry out: environments stay as they are."""

from __future__ import annotations

import math
from typing import Any

from shoal.envs.wrappers.values import nothing, number


class Normalise:
    """Observations with zero mean and unit variance, by statistics that trainers keep: `algorithm.normalise_observations`."""

    @classmethod
    def check(cls, value: Any) -> None:
        """It takes none."""
        nothing(value, "normalise")


class RewardScale:
    """Rewards times a number, in what is learned from; scores and returns stay the environment's own."""

    @classmethod
    def check(cls, value: Any) -> float:
        """What rewards are multiplied by."""
        return number(value, 0.0, math.inf, "reward_scale: 0.1")
