"""Asynchronous proximal policy optimisation: see README.md in this folder."""

from shoal.algorithms.appo.appo import APPO
from shoal.algorithms.appo.config import APPOConfig

__all__ = ["APPO", "APPOConfig"]
