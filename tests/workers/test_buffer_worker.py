"""Buffer workers and their trainer without a process: the rate, the warm-up, the books, and what a death costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shoal.api.algorithm import Learner, Needs, Priorities, Replay, Update
from shoal.api.fragment import Fragment
from shoal.api.messages import Numbers, Updated
from shoal.base.errors import ShoalError
from shoal.buffers.prioritised import PrioritisedReplay
from shoal.buffers.rate import Rate
from shoal.buffers.uniform import UniformReplay
from shoal.streams.batch import AHEAD, RETURNS, BatchReader, PartWriter, lanes_of, part_layout, priority_layout
from shoal.streams.sample import Account, SampleReader, SampleWriter, account, fragment_layout
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing, NoWaiting
from shoal.workers.buffer import BufferWorker
from shoal.workers.sources import BufferSource
from shoal.workers.trainer import TrainerWorker
from tests.workers.said import alone, only, values
from tests.workers.test_trainer import GROUP, Adding

SHARDS, LANES, ROWS, UPDATES = 2, 2, 4, 2
"""A fragment is 2 lanes of 2 decisions; a round is one of each shard, and worth 2 updates."""


class World:
    """An actor for each of two shards, and their trainer. A death is a new object in the place of the old one."""

    def __init__(self, priorities: Priorities | None = None, *, warmup: int = 8, slack: float = 8.0) -> None:
        self.replay = Replay(capacity=48, sequences=4, updates=UPDATES, warmup=warmup, priorities=priorities)
        self.slack, self.now = slack, 0.0
        self.algorithm = Adding()
        self.algorithm.needs = Needs(2, replay=self.replay)
        layout = fragment_layout(GROUP, self.algorithm.needs, self.algorithm.policy, LANES, None)
        self.samples = [MemoryRing(layout, 2) for _ in range(SHARDS)]
        self.example = lanes_of(Fragment(**layout.allocate()["fragment"]), 2)
        self.parts = [MemoryRing(part_layout(self.example), AHEAD) for _ in range(SHARDS)]
        self.returns = [MemoryRing(priority_layout(2), RETURNS) for _ in range(SHARDS)]
        self.writers = [SampleWriter(ring, shard) for shard, ring in enumerate(self.samples)]
        self.buffers = [self.buffer(shard) for shard in range(SHARDS)]
        reader = BatchReader(list(self.parts), list(self.returns), patience=1.0, clock=lambda: self.now)
        self.mailbox = MemoryMailbox(self.algorithm.flat.nbytes, 1)
        source = BufferSource(self.replay, reader)
        self.trainer = TrainerWorker("trainer-p-0", self.algorithm, alone(self.mailbox), source)
        self.trainer.start()
        self.metrics: dict[str, float] = {}

    def buffer(self, shard: int, life: int = 0) -> BufferWorker:
        kept: Any = (
            UniformReplay(self.example, 12, seed=1, slot=shard)
            if self.replay.priorities is None
            else PrioritisedReplay(self.example, 12, self.replay.priorities, seed=1, slot=shard)
        )
        rate = Rate(UPDATES / ROWS, self.replay.warmup // SHARDS, self.slack)
        parts = PartWriter(self.parts[shard], self.returns[shard])
        reader = SampleReader([self.samples[shard]], exact=False, size=1)
        return BufferWorker(f"buffer-{shard}", kept, rate, reader, parts, NoWaiting(), life=life)

    def act(self, shard: int, number: float = 1.0) -> bool:
        posted = self.writers[shard].begin(0.0)
        if posted is None:
            return False
        posted.fragment.reward[:] = number
        posted.fragment.valid[:2] = True
        posted.fragment.lanes[:] = np.arange(LANES) + LANES * shard
        posted.header["rows"], posted.header["steps"] = ROWS, ROWS
        self.writers[shard].post(posted)
        return True

    def train(self) -> int:
        """As far as it goes; how many versions it made."""
        began = self.trainer.version
        while said := self.trainer.poll(0.0):
            for message in said:
                self.metrics |= values(message)
        return self.trainer.version - began

    def sweep(self, *shards: int, learn: bool = True) -> None:
        for shard in shards or range(SHARDS):
            self.act(shard)
            while self.buffers[shard].poll(0.0):
                pass
        if learn:
            self.train()

    def books(self) -> Account:
        books = sum(map(account, self.samples[1:]), account(self.samples[0]))
        assert books.balanced
        return books


def test_it_begins_when_all_shards_are_warm() -> None:
    world = World(warmup=16)
    world.sweep(0)
    world.sweep(0)
    world.sweep(0)
    world.now = 100.0
    assert (world.trainer.version, len(world.algorithm.seen)) == (0, 0)
    world.sweep(1)
    assert len(world.algorithm.seen) == 0
    world.sweep(1)
    assert len(world.algorithm.seen) > 0
    assert world.algorithm.seen[0].reward.shape == (3, 4)
    assert world.trainer.steps == 16, "what came since is told with the parts to come"


def test_the_rate_is_held_both_ways() -> None:
    world = World(slack=8.0)
    for _ in range(50):
        world.sweep(learn=False)  # actors hurry
    books = world.books()
    assert books.outcomes["inserted"] == SHARDS * 24, (
        "warm-up, slack, what is drawn ahead is worth, rounded up to a fragment"
    )
    assert not world.act(0)
    for _ in range(50):
        world.train()  # and now the trainer does
        for buffer in world.buffers:
            buffer.poll(0.0)
    ahead = world.books().outcomes["inserted"] / SHARDS - 4
    assert ahead + 8 <= len(world.algorithm.seen) / UPDATES * ROWS <= ahead + 8 + 2
    for _ in range(200):
        world.sweep()
    rows, updates = world.books().outcomes["inserted"] / SHARDS - 4, len(world.algorithm.seen)
    assert updates / rows == pytest.approx(UPDATES / ROWS, abs=0.02)
    assert world.metrics["train/updates_per_row"] == pytest.approx(updates / (2 * rows), rel=0.1)
    assert world.trainer.version == updates // UPDATES
    assert world.books().held == sum(buffer.buffer.held for buffer in world.buffers) == 2 * 24
    assert world.metrics["replay/held"] == 48
    assert world.trainer.steps >= world.books().outcomes["inserted"] - 64


def test_a_dead_shard_costs_what_it_held_and_the_others_go_on() -> None:
    world = World(Priorities(0.6, 0.4))
    for _ in range(30):
        world.sweep()
    world.sweep(learn=False)
    before, lost = world.books(), world.buffers[1].buffer.held
    assert lost == 24
    world.buffers[1] = world.buffer(1, life=1)
    updates = len(world.algorithm.seen)
    for _ in range(20):
        world.sweep(0)  # what the dead one sent ahead is still good
    assert not world.act(0), "the trainer waits for the missing part, and the actors for the trainer"
    world.now += 0.5
    world.train()
    waited = len(world.algorithm.seen)
    world.now += 1.0
    for _ in range(20):
        world.sweep(0)
    assert len(world.algorithm.seen) > waited > updates
    assert world.algorithm.seen[-1].reward.shape == (3, 2), "a smaller batch"
    assert world.metrics["train/short_batches"] > 0
    world.act(1)
    while world.buffers[1].poll(0.0):
        pass
    books = world.books()
    assert books.forgotten == lost
    assert books.outcomes["inserted"] == books.held + books.evicted + books.forgotten
    assert books.held == sum(buffer.buffer.held for buffer in world.buffers)
    assert books.outcomes["inserted"] > before.outcomes["inserted"]
    for _ in range(20):
        world.sweep()
    assert world.algorithm.seen[-1].reward.shape == (3, 4)


def reporting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of actor 1 are worth ten times as much as those of actor 0."""
    update = world.algorithm.update

    def report(batch: Fragment, learner: Learner) -> Update:
        update(batch, learner)
        return Update(priorities=torch.where(batch.reward[0] == 2.0, 10.0, 1.0))

    monkeypatch.setattr(world.algorithm, "update", report)


def test_priorities_come_back_and_keys_of_an_earlier_life_are_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Priorities(1.0, 0.4))
    reporting(world, monkeypatch)
    for number in range(40):
        for shard in range(SHARDS):
            world.act(shard, 1.0 + number % 2)
        world.sweep()
    values = world.buffers[0].buffer._tree.values
    rewards = dict(world.buffers[0].buffer._columns.arrays())["columns/reward"][0]
    known = values < values.max() * 0.99
    assert known.any()
    assert set(rewards[known].tolist()) == {1.0}
    world.sweep(learn=False)
    world.buffers[0] = world.buffer(0, life=1)
    world.train()  # from what the dead one had sent ahead
    for _ in range(10):
        world.sweep()
    fresh = world.buffers[0].buffer
    assert fresh.stale > 0
    assert world.metrics["replay/stale"] > 0


def test_weights_are_those_of_the_whole_batch() -> None:
    """Two sequences in each shard, and chances of 1/4, 3/4, 1/2 and 1/2 there: in the batch, the half of that each."""
    world = World(Priorities(1.0, 1.0))
    world.sweep(learn=False)
    for shard, priorities in enumerate(([1.0, 3.0], [2.0, 2.0])):
        world.buffers[shard].buffer.revalue(np.arange(2), np.array(priorities))
    for ring in world.parts:  # what was drawn before is of no interest
        while (slot := ring.take(0.0)) is not None:
            ring.free(slot)
    for buffer in world.buffers:
        buffer.poll(0.0)
    world.train()
    (batch,) = world.algorithm.seen
    assert batch.weights is not None
    expected = np.array([1 / 0.5, 1 / 1.5, 1.0, 1.0])[batch.lanes.numpy()]
    assert set(batch.lanes.tolist()) >= {1}
    assert batch.weights.numpy() == pytest.approx(expected / expected.max(), rel=1e-4)


def test_what_is_not_finite_is_dropped_and_ends_the_run_if_it_goes_on() -> None:
    world = World()
    world.sweep()
    world.act(0, float("nan"))
    said = only(world.buffers[0].poll(0.0), Numbers)
    assert said.metrics["train/dropped_not_finite"].value == ROWS
    world.act(0)
    world.buffers[0].poll(0.0)
    assert world.books().outcomes["not_finite"] == ROWS
    for _ in range(9):
        world.act(0, float("nan"))
        world.buffers[0].poll(0.0)
    world.act(0, float("nan"))
    with pytest.raises(ShoalError, match="10 fragments in a row were not finite, the last: reward of lanes"):
        world.buffers[0].poll(0.0)


def test_a_failed_update_is_undone_with_its_round() -> None:
    world = World()
    world.sweep()
    version, published = world.trainer.version, world.algorithm.flat.block.clone()
    assert world.mailbox.read(version, published.numpy())
    world.algorithm.fail = True
    world.act(0)
    world.act(1)
    for buffer in world.buffers:
        buffer.poll(0.0)
    said = only(world.trainer.poll(0.0), Updated)
    assert said.metrics["train/undone_rounds"].value == 1
    assert world.trainer.version == said.version == version + 1
    assert torch.equal(world.algorithm.flat.block, published)


def test_a_round_that_fails_is_undone_from_its_first_batch_on() -> None:
    """Two batches are a version: where the second cannot be learned from, what was learned from the first is gone too."""
    world = World()
    world.act(0)
    world.act(1)
    for buffer in world.buffers:
        buffer.poll(0.0)
    published = world.algorithm.flat.block.clone()
    assert world.mailbox.read(world.trainer.version, published.numpy())
    assert world.trainer.poll(0.0) == [Numbers()], "one batch is no version yet"
    assert not torch.equal(world.algorithm.flat.block, published)
    world.algorithm.fail = True
    said = only(world.trainer.poll(0.0), Updated)
    assert (said.version, said.metrics["train/undone_rounds"].value) == (1, 1)
    assert torch.equal(world.algorithm.flat.block, published)
