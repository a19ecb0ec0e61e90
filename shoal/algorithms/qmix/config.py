"""The settings of QMIX, VDN and independent Q-learning on a team's reward."""

from __future__ import annotations

from typing import Literal

from shoal.algorithms.q_learning import QLearningConfig
from shoal.api.algorithm import TeamReward
from shoal.models.layers import Width


class QMIXConfig(QLearningConfig):
    """Q-learning for teams: every agent values its own choices, a mixer makes them the value of all."""

    name: Literal["qmix"] = "qmix"
    mixer: Literal["qmix", "vdn", "none"] = "qmix"
    """`qmix`: by a monotonic network that sees the global state. `vdn`: their sum. `none`: every agent learns on its own."""
    reward: TeamReward = "sum"
    """What the team earns: the sum of its agents' rewards, their mean, or the first one's (where all earn the same)."""
    agent_ids: bool = True
    """Tell agents apart: their numbers join the model's features, in one more dense layer."""
    embedding: Width = 32
    """Width of the mixer's inner layer."""
    hyper: list[Width] = [64]
    """Layers of the networks that give the mixer its weights."""
