"""The evaluation worker without a run around it: what it takes, what it holds, what it tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shoal.api.evaluation import Evaluation
from shoal.api.experiment import EvaluationConfig, StopConfig
from shoal.base.seeding import Noise
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.evaluation.evaluator import Evaluator
from shoal.rollout.players import FixedInference, RandomPolicy
from shoal.rollout.seat import Seat
from shoal.streams.transports.memory import MemoryMailbox, NoWaiting
from shoal.workers.evaluation import STEPS_PER_POLL, EvaluationWorker, Rules
from tests.envs.sample_worlds import Counting


class Desk:
    """A worker, and what a run would do with it."""

    def __init__(self, folder: Path, *, judged: int = -1, length: int = 3, **stop: Any) -> None:
        self.store = CheckpointStore(folder, keep=1)
        self.orders = MemoryMailbox(1, 1)
        self.seated: list[int] = []
        self.worlds = [Counting(length) for _ in range(2)]
        self.env = GymnasiumLoop(list(self.worlds), "counting")
        rules = Rules(EvaluationConfig(every=1.0, episodes=4), StopConfig(**stop), seed=1, timeout=60.0)
        self.worker = EvaluationWorker(
            "evaluation-0",
            self.env,
            self.orders,
            CheckpointStore(folder),
            self._judge,
            rules,
            NoWaiting(),
            judged=judged,
        )

    def _judge(self, found: Checkpoint) -> Evaluator:
        self.seated.append(int(found.tensors["agent/version"]))
        policy = RandomPolicy(self.env.groups["agent"])
        seat = Seat("agent", "agent", FixedInference(policy, explore=True), Noise(1, "x", np.arange(2), 1), None)
        return Evaluator(self.env, [seat], judged=["agent"])

    def save(self, version: int, *, order: bool = True) -> None:
        self.store.save(version, {"agent/version": torch.tensor(version)}, {"steps": 10 * version})
        if order:
            self.orders.publish(version, np.zeros(1, np.uint8))

    def begin(self) -> int | None:
        report = self.worker.poll(0.0)
        assert report.evaluation is None
        return report.evaluating

    def finish(self) -> Evaluation:
        for _ in range(100):
            if (report := self.worker.poll(0.0)).evaluation is not None:
                return report.evaluation
        raise AssertionError("it does not come to an end")


def test_it_waits_for_orders_not_for_checkpoints(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert not desk.worker.poll(0.0).worked
    desk.save(1, order=False)
    assert not desk.worker.poll(0.0).worked
    desk.save(2)
    assert desk.begin() == 2
    judged = desk.finish()
    assert (judged.version, judged.steps, judged.scores.lengths) == (2, 20, [3, 3, 3, 3])
    assert judged.confirmation is None
    assert not desk.worker.poll(0.0).worked


def test_what_comes_meanwhile_waits_and_the_newest_is_next(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.save(1)
    assert desk.begin() == 1
    desk.save(2)
    desk.save(3)
    assert desk.finish().version == 1
    assert desk.begin() == 3
    assert desk.finish().version == 3
    assert desk.seated == [1, 3]


def test_a_poll_is_short(tmp_path: Path) -> None:
    desk = Desk(tmp_path, length=1000)
    desk.save(1)
    desk.begin()
    desk.worker.poll(0.0)
    assert len(desk.worlds[0].actions) == STEPS_PER_POLL


def test_equal_versions_are_judged_alike_whatever_was_judged_before(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.save(4)
    desk.begin()
    desk.finish()
    seeds = [world.seeds[-3:-1] for world in desk.worlds]
    desk.save(5)
    desk.begin()
    desk.finish()
    assert [world.seeds[-3:-1] for world in desk.worlds] != seeds, "other versions have other seeds"
    again = Desk(tmp_path, judged=4)
    assert not again.worker.poll(0.0).worked
    again.save(5)
    again.begin()
    again.finish()
    assert [world.seeds for world in again.worlds] == [world.seeds[3:] for world in desk.worlds]


def test_what_is_judged_is_not_removed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)  # keeps one
    desk.save(1)
    desk.begin()
    desk.save(2)
    assert desk.store.versions() == [1, 2]
    desk.finish()
    desk.begin()
    desk.save(3)
    assert desk.store.versions() == [1, 2, 3], "the score of the first may not have been heard"
    desk.finish()
    desk.begin()
    desk.save(4)
    assert desk.store.versions() == [2, 3, 4]
    desk.worker.close()
    desk.save(5)
    assert desk.store.versions() == [5]


def test_a_version_that_is_gone_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path)
    desk.save(1)
    desk.save(2, order=False)
    assert desk.store.versions() == [2]
    report = desk.worker.poll(0.0)
    assert (report.worked, report.evaluating) == (True, None)
    assert "version 1 is not judged: there is no checkpoint 1" in caplog.text
    assert not desk.worker.poll(0.0).worked
    desk.save(3)
    assert desk.begin() == 3


def test_a_goal_is_confirmed_by_the_same_version_on_fresh_seeds(tmp_path: Path) -> None:
    desk = Desk(tmp_path, return_=6.0, episodes=5)  # 1 + 2 + 3
    desk.save(1)
    desk.begin()
    desk.save(2)
    judged = desk.finish()
    assert judged.version == 1
    assert judged.confirmation is not None
    assert (len(judged.scores.returns), len(judged.confirmation.returns)) == (4, 5)
    assert desk.seated == [1]
    seeds = desk.worlds[0].seeds
    assert len(seeds) == len(set(seeds))


def test_a_goal_that_is_not_reached_is_not_confirmed(tmp_path: Path) -> None:
    desk = Desk(tmp_path, return_=6.1)
    desk.save(1)
    desk.begin()
    assert desk.finish().confirmation is None
