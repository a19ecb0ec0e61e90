"""The settings of DQN."""

from __future__ import annotations

from typing import Literal

from shoal.algorithms.q_learning import QLearningConfig


class DQNConfig(QLearningConfig):
    """Deep Q-learning: action values from replay, with a target network. Several agents learn independently of each other."""

    name: Literal["dqn"] = "dqn"
