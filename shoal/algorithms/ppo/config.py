"""The settings of PPO."""

from __future__ import annotations

from typing import Literal

from shoal.algorithms.clipped import ClippedConfig
from shoal.algorithms.policy_gradient import PolicyGradientConfig


class PPOConfig(PolicyGradientConfig, ClippedConfig):
    """Proximal policy optimisation: several careful passes over each batch of fresh experience.

    With many agents, `critic: own` is IPPO and `critic: central` MAPPO.
    """

    name: Literal["ppo"] = "ppo"
    normalise_values: bool = False
    """Let the value function learn returns of zero mean and unit spread, by statistics saved with the policy."""
