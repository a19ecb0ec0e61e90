"""Replicas of one trainer inside one process: a thread each while they update, since they wait for each other within it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from shoal.api.worker import Report, Worker
from shoal.launchers.updates import joined
from shoal.workers.trainer import TrainerWorker


class ReplicaThreads(Worker):
    """Polls all replicas at once, as soon as each has its batch. The order in which they run changes no bit: they sum by rank."""

    def __init__(self, trainers: list[TrainerWorker]) -> None:
        self.name = "+".join(trainer.name for trainer in trainers)
        self.trainers = trainers
        self._threads = ThreadPoolExecutor(len(trainers), thread_name_prefix="trainer")

    def poll(self, timeout: float) -> Report:
        if not all(trainer.ready() for trainer in self.trainers):
            return Report()
        futures = [self._threads.submit(trainer.poll, timeout) for trainer in self.trainers]
        return joined([future.result() for future in futures])

    def close(self) -> None:
        self._threads.shutdown()
