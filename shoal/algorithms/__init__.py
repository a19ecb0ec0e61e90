"""Ways to learn: pure maths in `returns` and `losses`, one folder per algorithm."""

from __future__ import annotations

from shoal.base.table import Table

ALGORITHMS = Table(
    "algorithm",
    {
        "ppo": "shoal.algorithms.ppo:PPO",
        "appo": "shoal.algorithms.appo:APPO",
        "impala": "shoal.algorithms.impala:IMPALA",
        "a2c": "shoal.algorithms.a2c:A2C",
        "dqn": "shoal.algorithms.dqn:DQN",
        "qmix": "shoal.algorithms.qmix:QMIX",
        "sac": "shoal.algorithms.sac:SAC",
        "a3c": "shoal.algorithms.a2c:A3C",
    },
)
