"""Proximal policy optimisation: see README.md in this folder."""

from shoal.algorithms.ppo.config import PPOConfig
from shoal.algorithms.ppo.ppo import PPO

__all__ = ["PPO", "PPOConfig"]
