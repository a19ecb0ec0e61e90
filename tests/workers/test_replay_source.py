"""A trainer that replays: what it keeps, when it begins, and what a bad round does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Learner, Needs, Priorities, Replay, Update
from shoal.api.fragment import Fragment
from shoal.api.messages import Updated
from shoal.base.config import Schedule
from shoal.buffers.prioritised import PrioritisedReplay
from shoal.buffers.uniform import UniformReplay
from shoal.streams.sample import SampleReader, SampleWriter, account, fragment_layout
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing
from shoal.workers.sources import ReplaySource, Round
from shoal.workers.trainer import TrainerWorker
from tests.workers.said import alone, only, values
from tests.workers.test_trainer import GROUP, Adding

REPLAY = Replay(capacity=16, sequences=3, updates=2, warmup=8)


class World:
    """One ring of two lanes with two decisions each, and its trainer."""

    def __init__(self, priorities: Priorities | None = None) -> None:
        self.algorithm = Adding()
        self.algorithm.needs = Needs(2, replay=REPLAY)
        layout = fragment_layout(GROUP, self.algorithm.needs, self.algorithm.policy, 2, None)
        self.ring = MemoryRing(layout, 1)
        self.writer = SampleWriter(self.ring, 0)
        example = Fragment(**layout.allocate()["fragment"])
        self.buffer: Any = (
            UniformReplay(example, 8, seed=1)
            if priorities is None
            else PrioritisedReplay(example, 8, priorities, seed=1)
        )
        self.mailbox = MemoryMailbox(self.algorithm.flat.nbytes, 1)
        self.source = ReplaySource(SampleReader([self.ring]), REPLAY, self.buffer)
        self.trainer = TrainerWorker("trainer-p-0", self.algorithm, alone(self.mailbox), self.source)
        self.trainer.start()

    def round(self, number: float) -> dict[str, float]:
        posted = self.writer.begin(0.0)
        assert posted is not None
        posted.fragment.reward[:] = number
        posted.fragment.valid[:2] = True
        posted.header["rows"], posted.header["steps"] = 4, 4
        self.writer.post(posted)
        return values(only(self.trainer.poll(0.0), Updated))


def test_it_begins_when_it_is_warm_and_publishes_one_version_a_round() -> None:
    world = World()
    start = world.algorithm.flat.block.clone()
    first = world.round(1.0)
    assert (first["replay/held"], first["train/updates_per_row"], world.trainer.version) == (4, 0.0, 1)
    assert torch.equal(world.algorithm.flat.block, start)
    second = world.round(2.0)
    assert (second["replay/held"], second["train/updates_per_row"], world.trainer.version) == (8, 0.5, 2)
    drawn = world.algorithm.seen
    assert [batch.reward.shape for batch in drawn] == [(3, 3), (3, 3)]
    assert set(np.concatenate([batch.reward[0].numpy() for batch in drawn]).tolist()) <= {1.0, 2.0}
    for number in range(3, 8):
        last = world.round(float(number))
    assert (last["replay/held"], last["replay/evicted"]) == (16, 12)
    books = account(world.ring)
    assert books.outcomes["inserted"] == world.buffer.inserted == 28
    assert (books.held, books.evicted, books.forgotten) == (16, 12, 0)


def test_a_bad_round_is_not_kept() -> None:
    world = World()
    world.round(1.0)
    metrics = world.round(float("nan"))
    assert metrics["train/dropped_not_finite"] == 4
    assert (world.buffer.inserted, world.trainer.version) == (4, 2)
    settled = {"trained": 0, "inserted": 4, "stale": 0, "not_finite": 4, "lost": 0, "surplus": 0}
    assert account(world.ring).outcomes == settled


def test_a_failed_update_is_undone_and_what_was_kept_stays() -> None:
    world = World()
    world.round(1.0)
    before = world.algorithm.flat.block.clone()
    world.algorithm.fail = True
    assert world.round(2.0)["train/undone_rounds"] == 1
    assert torch.equal(world.algorithm.flat.block, before)
    assert account(world.ring).outcomes["inserted"] == world.buffer.inserted == 8


def test_priorities_go_back_and_what_they_name_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards of 2 matter, others not at all: once reported, they are almost all that is drawn."""
    world = World(Priorities(1.0, Schedule(start=0.0, end=1.0, steps=24)))
    update = world.algorithm.update

    def reporting(batch: Fragment, learner: Learner) -> Update:
        update(batch, learner)
        return Update(priorities=(batch.reward[0] == 2.0).float())

    monkeypatch.setattr(world.algorithm, "update", reporting)
    for number in (1.0, 2.0, 3.0, 4.0, 4.0):
        world.round(number)
    assert world.buffer.stale == 0
    learner = SoloLearner()
    for _ in range(4):  # whatever is new is looked at first
        for batch in world.source.batches(Round(0, 0), 9, learner):
            world.source.learned(batch, world.algorithm.update(batch, learner))
    world.algorithm.seen.clear()
    metrics = world.round(2.0)
    assert metrics["replay/beta"] == 1.0
    assert all(batch.weights.max() == 1.0 for batch in world.algorithm.seen)
    rewards = torch.cat([batch.reward[0] for batch in world.algorithm.seen])
    assert (rewards == 2.0).float().mean() > 0.9
