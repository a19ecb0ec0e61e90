"""Several trainers in one process take turns, always in the same order: replicas that wait for each other inside an update must
all be at the same policy."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.api.worker import Report, Worker
from shoal.workers.trainer import TrainerWorker


class Turns(Worker):
    """Polls one trainer until it has made its update, then the next. A state is handed in whoever's turn it is.

    `rounds`: policy -> rounds that are over. After a death one policy may be behind: it comes first, or the world waits for it.
    """

    def __init__(self, trainers: list[TrainerWorker], rounds: Mapping[str, int]) -> None:
        self.name = "+".join(trainer.name for trainer in trainers)
        self._trainers = trainers
        self._turn = min(range(len(trainers)), key=lambda turn: rounds.get(trainers[turn].policy, 0))

    def poll(self, timeout: float) -> Report:
        for trainer in self._trainers:
            if trainer.state_due:
                return trainer.poll(0.0)
        report = self._trainers[self._turn].poll(timeout)
        if report.worked:
            self._turn = (self._turn + 1) % len(self._trainers)
        return report


def take_turns(workers: list[Worker], rounds: Mapping[str, int]) -> list[Worker]:
    """Other workers as they are, trainers as one where there are several."""
    trainers = [worker for worker in workers if isinstance(worker, TrainerWorker)]
    if len(trainers) < 2:
        return workers
    return [*(worker for worker in workers if not isinstance(worker, TrainerWorker)), Turns(trainers, rounds)]
