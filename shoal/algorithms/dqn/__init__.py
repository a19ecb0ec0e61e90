"""Deep Q-learning: see README.md in this folder."""

from shoal.algorithms.dqn.config import DQNConfig
from shoal.algorithms.dqn.dqn import DQN

__all__ = ["DQN", "DQNConfig"]
