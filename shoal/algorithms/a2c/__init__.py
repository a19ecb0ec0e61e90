"""Advantage actor-critic, synchronous and asynchronous: see README.md in this folder."""

from shoal.algorithms.a2c.a2c import A2C, A3C
from shoal.algorithms.a2c.config import A2CConfig

__all__ = ["A2C", "A3C", "A2CConfig"]
