"""Ways to learn: pure maths in `returns` and `losses`, one folder per algorithm."""

from __future__ import annotations

from shoal.base.table import Table

ALGORITHMS = Table("algorithm", {"ppo": "shoal.algorithms.ppo:PPO"})
