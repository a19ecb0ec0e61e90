"""The heartbeat board: how long a process has been inside its environments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from tests.launchers.processes import wait_for


@pytest.fixture
def board() -> Iterator[HeartbeatBoard]:
    board = HeartbeatBoard.create(3)
    yield board
    board.close()


def test_each_host_has_its_place(board: HeartbeatBoard) -> None:
    board.place(1).beat()
    assert wait_for(lambda: board.away(1) > 0.5, 30)
    assert board.away(0) == board.away(2) == 0.0
    board.place(1).beat()
    assert board.away(1) < 0.5
    board.place(1).rest()
    assert board.away(1) == 0.0


def test_a_new_life_begins_at_rest(board: HeartbeatBoard) -> None:
    board.place(2).beat()
    assert wait_for(lambda: board.away(2) > 0, 30)
    board.clear(2)
    assert board.away(2) == 0.0


def test_worlds_may_take_longer_to_be_made_than_to_step(board: HeartbeatBoard) -> None:
    place = board.place(0)
    place.begin(100.0)
    assert -100.0 <= board.away(0) < -50.0
    place.begin(0.01)
    assert wait_for(lambda: board.away(0) > 0.05, 30)
    place.rest()
    assert board.away(0) == 0.0


def test_a_host_writes_where_the_launcher_reads(board: HeartbeatBoard) -> None:
    attached = HeartbeatBoard.attach(board.handle)
    attached.place(0).beat()
    assert wait_for(lambda: board.away(0) > 0, 30)
    attached.close()
