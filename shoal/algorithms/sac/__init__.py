"""Soft actor-critic: see README.md in this folder."""

from shoal.algorithms.sac.config import SACConfig
from shoal.algorithms.sac.sac import SAC

__all__ = ["SAC", "SACConfig"]
