"""Ways to learn: pure maths in `returns` and `losses`, one folder per family of algorithms."""

from __future__ import annotations

from shoal.base.table import Table

ALGORITHMS = Table(
    "algorithm",
    {
        "ppo": "shoal.algorithms.actor_critic.ppo:PPO",
        "appo": "shoal.algorithms.actor_critic.appo:APPO",
        "impala": "shoal.algorithms.actor_critic.impala:IMPALA",
        "a2c": "shoal.algorithms.actor_critic.a2c:A2C",
        "dqn": "shoal.algorithms.novelty.ngu:DQNOrNGU",
        "qmix": "shoal.algorithms.q_learning.qmix:QMIX",
        "sac": "shoal.algorithms.sac:SAC",
        "a3c": "shoal.algorithms.actor_critic.a2c:A3C",
    },
)
