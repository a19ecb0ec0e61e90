"""Learning from experience of an older policy: what IMPALA and APPO set and show alike."""

from __future__ import annotations

import math

from pydantic import Field
from torch import Tensor

from shoal.algorithms.settings import Live
from shoal.base.config import Config


class VTraceConfig(Config):
    """How far V-trace trusts the probability ratios."""

    rho_bar: Live[float] = Field(1.0, gt=0)
    """Bound on the ratio that weighs a decision. It sets what is valued: without bound the policy that learns, at 0 the one
    that acted."""
    c_bar: Live[float] = Field(1.0, gt=0)
    """Bound on the ratio that carries later rewards back. It sets how far they are carried, not what is valued."""


def rho_metrics(log_ratio: Tensor, rho_bar: float) -> dict[str, Tensor]:
    """Per row: V-trace's weight, and whether the bound was felt. Ratios of 1 differ from 1 by rounding: no bound."""
    rho = log_ratio.exp().clamp(max=rho_bar)
    return {"rho": rho, "rho_clipped": (log_ratio > math.log(rho_bar) + 1e-3).to(rho.dtype)}
