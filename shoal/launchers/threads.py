"""Replicas of one trainer inside one process: a thread each while they update, since they wait for each other within it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from shoal.api.messages import Message, Updated
from shoal.api.metric import Metric, merge_into
from shoal.api.worker import Worker
from shoal.workers.trainer import TrainerWorker


def joined(said: list[Updated]) -> Updated:
    """What replicas in step say of one version, in the words of the first, with the numbers of all in the order of ranks."""
    metrics: dict[str, Metric] = {}
    for message in said:
        merge_into(metrics, message.metrics)
    return replace(said[0], metrics=metrics)


class ReplicaThreads(Worker):
    """Polls all replicas at once, as soon as each has its batch. The order in which they run changes no bit: they sum by rank."""

    def __init__(self, trainers: list[TrainerWorker]) -> None:
        self.name = "+".join(trainer.name for trainer in trainers)
        self.trainers = trainers
        self._threads = ThreadPoolExecutor(len(trainers), thread_name_prefix="trainer")

    def poll(self, timeout: float) -> list[Message]:
        if not all(trainer.ready() for trainer in self.trainers):
            return []
        futures = [self._threads.submit(trainer.poll, timeout) for trainer in self.trainers]
        said = [message for future in futures for message in future.result()]
        updated = [message for message in said if isinstance(message, Updated)]
        others = [message for message in said if not isinstance(message, Updated)]
        return [*others, *([joined(updated)] if updated else [])]

    def close(self) -> None:
        self._threads.shutdown()
