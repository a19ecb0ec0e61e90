"""Importance-weighted actor-learner architecture: see README.md in this folder."""

from shoal.algorithms.impala.config import IMPALAConfig
from shoal.algorithms.impala.impala import IMPALA

__all__ = ["IMPALA", "IMPALAConfig"]
