"""One file per worker kind: its spec, its ports, how it is built, its loop, its messages and orders. None knows its process."""

from __future__ import annotations

from shoal.base.table import Table

WORKERS = Table(
    "workers",
    {
        "actor": "shoal.workers.actor:ActorSpec",
        "policy": "shoal.workers.policy:PolicyWorkerSpec",
        "buffer": "shoal.workers.buffer:BufferSpec",
        "trainer": "shoal.workers.trainer:TrainerSpec",
        "evaluation": "shoal.workers.evaluation:EvaluationSpec",
        "league": "shoal.workers.league:LeagueSpec",
        "confirmation": "shoal.workers.confirmation:ConfirmationSpec",
    },
)
