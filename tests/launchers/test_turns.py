"""Several trainers in one process: policies in turn, replicas at once."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from shoal.api.worker import Report, Worker
from shoal.launchers.threads import ReplicaThreads
from shoal.launchers.turns import Turns, take_turns
from shoal.workers.trainer import TrainerWorker


class Scripted(TrainerWorker):
    """A trainer that does as it is told."""

    def __init__(self, policy: str, log: list[str]) -> None:
        self.name, self.policy = f"trainer-{policy}-0", policy
        self.log, self.batch, self.due = log, False, False
        self.meet: threading.Barrier | None = None
        self.error: Exception | None = None

    @property
    def state_due(self) -> bool:
        return self.due

    def ready(self) -> bool:
        return self.batch

    def poll(self, timeout: float) -> Report:
        if self.due:
            self.due = False
            self.log.append(f"{self.policy} hands in")
            return Report(True, policy=self.policy, state=b"state")
        if self.meet is not None:
            self.meet.wait(30)
        if self.error is not None:
            raise self.error
        self.log.append(self.policy if self.batch else f"{self.policy} waits")
        return Report(self.batch, policy=self.policy)


def trainers(*names: str) -> tuple[list[Scripted], list[str]]:
    log: list[str] = []
    return [Scripted(name, log) for name in names], log


def turns(workers: list[Scripted], rounds: dict[str, int]) -> Turns:
    return Turns(cast("list[TrainerWorker]", workers), rounds)


def test_one_waits_until_the_other_has_made_its_update() -> None:
    (a, b), log = trainers("a", "b")
    both = turns([a, b], {})
    b.batch = True
    both.poll(0.0)
    both.poll(0.0)
    a.batch = True
    for _ in range(4):
        both.poll(0.0)
    assert log == ["a waits", "a waits", "a", "b", "a", "b"]


def test_after_a_death_the_one_behind_comes_first() -> None:
    (a, b), log = trainers("a", "b")
    a.batch = b.batch = True
    both = turns([a, b], {"a": 5, "b": 4})
    for _ in range(3):
        both.poll(0.0)
    assert log == ["b", "a", "b"]


def test_a_state_is_handed_in_out_of_turn_and_costs_nobody_its_turn() -> None:
    (a, b), log = trainers("a", "b")
    both = turns([a, b], {})
    b.due = True
    assert both.poll(0.0).state == b"state"
    a.batch = b.batch = True
    both.poll(0.0)
    a.due = True
    both.poll(0.0)
    both.poll(0.0)
    assert log == ["b hands in", "a", "a hands in", "b"]


def test_only_several_trainers_take_turns() -> None:
    class Other(Worker):
        name = "other"

        def poll(self, timeout: float) -> Report:
            return Report()

    (a, b), _ = trainers("a", "b")
    alone: list[Worker] = [Other(), a]
    assert take_turns(alone, {}) is alone
    mixed = take_turns([a, Other(), b], {"a": 1, "b": 0})
    assert [worker.name for worker in mixed] == ["other", "trainer-a-0+trainer-b-0"]


def threads(workers: list[Scripted]) -> Any:
    return ReplicaThreads(cast("list[TrainerWorker]", workers))


def test_replicas_begin_once_all_have_their_batch_and_may_wait_for_each_other() -> None:
    replicas, log = trainers("a", "b", "c")
    meeting = threading.Barrier(3)
    together = threads(replicas)
    for replica in replicas:
        assert not together.poll(0.0).worked
        assert log == []
        replica.batch, replica.meet = True, meeting
    report = together.poll(0.0)
    assert (report.worked, report.policy) == (True, "a")
    assert sorted(log) == ["a", "b", "c"]
    together.close()


def test_the_error_of_a_replica_comes_out() -> None:
    replicas, _ = trainers("a", "b")
    for replica in replicas:
        replica.batch = True
    replicas[1].error = ZeroDivisionError("of the second")
    together = threads(replicas)
    with pytest.raises(ZeroDivisionError, match="of the second"):
        together.poll(0.0)
    together.close()
