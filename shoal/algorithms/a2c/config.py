"""The settings of A2C and A3C."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shoal.algorithms.policy_gradient import PolicyGradientConfig
from shoal.algorithms.settings import Live
from shoal.base.config import Count, Schedule


class A2CConfig(PolicyGradientConfig):
    """Advantage actor-critic: one step per batch. As A3C its replicas step whenever they like."""

    name: Literal["a2c", "a3c"] = "a2c"
    """`a2c`: replicas of the trainer agree on every step. `a3c`: they write into the same parameters without waiting."""
    lr: Live[float | Schedule] = 1e-3
    """Adam's step size; a number, or `{start, end, steps}` for a straight line."""
    unroll: Count = Field(16, ge=2)
    """Decisions per lane in one batch: the batch has `lanes x unroll` rows."""
    lam: Live[float] = Field(1.0, ge=0, le=1)
    """GAE's lambda: at 1 all rewards of the fragment count, as in the paper; 0 trusts the value function."""
    entropy: Live[float | Schedule] = 0.01
    """Weight of the entropy bonus; a number or a schedule."""
    normalise_advantages: bool = False
    """Give the batch's advantages zero mean and unit spread."""
