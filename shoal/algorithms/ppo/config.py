"""The settings of PPO."""

from __future__ import annotations

from typing import Literal

from shoal.algorithms.clipped import ClippedConfig
from shoal.algorithms.policy_gradient import PolicyGradientConfig


class PPOConfig(PolicyGradientConfig, ClippedConfig):
    """Proximal policy optimisation: several careful passes over each batch of fresh experience."""

    name: Literal["ppo"] = "ppo"
