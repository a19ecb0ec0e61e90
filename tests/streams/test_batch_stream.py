"""Parts of batches and priorities between shards and a trainer, over rings of memory."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.streams.batch import AHEAD, BatchReader, PartWriter, lanes_of, part_layout, priority_layout
from shoal.streams.transports.memory import MemoryRing
from tests.buffers.test_uniform import ROWS, fragment

LANES = 3


class World:
    """Two shards, and a trainer whose clock is ours."""

    def __init__(self, patience: float = 0.5, returns: int = 2) -> None:
        self.parts = [MemoryRing(part_layout(fragment(LANES, 0)), AHEAD) for _ in range(2)]
        self.priorities = [MemoryRing(priority_layout(LANES), returns) for _ in range(2)]
        self.writers = [PartWriter(*rings) for rings in zip(self.parts, self.priorities, strict=True)]
        self.now = 0.0
        self.reader = BatchReader(
            list(self.parts), list(self.priorities), patience=patience, clock=lambda: self.now
        )  # fmt: skip

    def post(self, shard: int, number: int) -> bool:
        part = self.writers[shard].begin()
        if part is None:
            return False
        part.fragment.reward[:] = number
        part.keys[:] = number
        self.writers[shard].post(part)
        return True

    def take(self) -> list[tuple[int, int]] | None:
        """Shard and number of each part; they are given back at once."""
        parts = self.reader.take(0.0)
        if parts is None:
            return None
        self.reader.free(parts)
        return [(part.shard, int(part.fragment.reward[0, 0])) for part in parts]


def test_a_batch_has_a_part_of_every_shard_in_their_order() -> None:
    world = World()
    for number in range(AHEAD):
        assert world.post(1, number)
    assert not world.post(1, 9), "so many are ready, no more"
    assert world.take() is None
    world.now = 100.0
    assert world.take() is None, "it begins with all of them"
    world.post(0, 7)
    assert world.take() == [(0, 7), (1, 0)]
    assert world.post(1, 4)


def test_a_shard_that_is_missing_is_waited_for_a_while_and_then_no_more_until_it_gives() -> None:
    world = World(patience=0.5)
    world.post(0, 0)
    world.post(1, 0)
    assert world.take() is not None
    world.now = 50.0  # nobody has anything: that is no reason to do without anyone
    assert world.take() is None
    world.post(0, 1)
    assert world.take() is None
    world.now = 50.4
    assert world.take() is None
    world.now = 50.6
    assert world.take() == [(0, 1)]
    world.post(0, 2)
    assert world.take() == [(0, 2)], "no second wait"
    world.post(0, 3)
    world.post(1, 3)
    assert world.take() == [(0, 3), (1, 3)]
    world.post(0, 4)
    assert world.take() is None, "it is waited for again"


def test_priorities_go_back_to_the_shard_they_came_from_and_never_wait_for_room() -> None:
    world = World(returns=2)
    for number in range(3):
        world.post(0, number)
        world.post(1, 10 + number)
        parts = world.reader.take(0.0)
        assert parts is not None
        world.reader.give_back(parts[1], np.arange(LANES) + number)
        world.reader.free(parts)
    assert world.reader.unreturned == LANES
    assert world.writers[0].returned() is None
    for number in range(2):
        returned = world.writers[1].returned()
        assert returned is not None
        assert returned.keys.tolist() == [10 + number] * LANES
        assert returned.priorities.tolist() == [number, number + 1, number + 2]
        world.writers[1].done(returned)
    assert world.writers[1].returned() is None


def test_successors_go_on_where_the_dead_left_off() -> None:
    world = World()
    for number in range(2):
        world.post(0, number)
        world.post(1, number)
    parts = world.reader.take(0.0)
    assert parts is not None
    world.reader.give_back(parts[0], np.ones(LANES))
    assert world.writers[0].returned() is not None
    world.reader = BatchReader(list(world.parts), list(world.priorities))
    world.reader.recover()
    world.writers[0] = PartWriter(world.parts[0], world.priorities[0])
    world.writers[0].recover()
    assert world.take() == [(0, 1), (1, 1)]
    assert world.priorities[0].freed == 1


@pytest.mark.parametrize("lanes", [1, 4])
def test_lanes_of_an_example(lanes: int) -> None:
    made = lanes_of(fragment(2, 5), lanes)
    assert made.observation["near"].shape == (ROWS, lanes, 2)
    assert made.state.shape == (lanes, 4)
    assert made.action_mask is None
    assert made.action.dtype == np.int64
