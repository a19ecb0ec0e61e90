"""The settings of APPO."""

from __future__ import annotations

from typing import Literal

from shoal.algorithms.clipped import ClippedConfig
from shoal.algorithms.off_policy import VTraceConfig
from shoal.algorithms.policy_gradient import PolicyGradientConfig


class APPOConfig(PolicyGradientConfig, ClippedConfig, VTraceConfig):
    """Asynchronous PPO: actors run ahead, V-trace corrects the values for it, PPO's clip bounds the policy."""

    name: Literal["appo"] = "appo"
