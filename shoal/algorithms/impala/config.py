"""The settings of IMPALA."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shoal.algorithms.off_policy import VTraceConfig
from shoal.algorithms.policy_gradient import PolicyGradientConfig
from shoal.algorithms.settings import Live
from shoal.base.config import Count, Schedule


class IMPALAConfig(PolicyGradientConfig, VTraceConfig):
    """IMPALA: actors run ahead, V-trace corrects for it, every row is learned from once."""

    name: Literal["impala"] = "impala"
    lr: Live[float | Schedule] = 1e-3
    """Adam's step size; a number, or `{start, end, steps}` for a straight line."""
    unroll: Count = Field(20, ge=2)
    """Decisions per lane in one batch: the batch has `lanes x unroll` rows."""
    parts: Count = Field(1, ge=1)
    """Steps per batch: its lanes are dealt out into this many parts, one step each."""
    lam: Live[float] = Field(1.0, ge=0, le=1)
    """Lambda of V-trace: 0 trusts the value function, 1 trusts the rewards seen."""
    entropy: Live[float | Schedule] = 0.01
    """Weight of the entropy bonus; a number or a schedule."""
    normalise_advantages: bool = False
    """Give the advantages of each part zero mean and unit spread."""
