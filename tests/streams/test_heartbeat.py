"""The heartbeat board: how long a process has given no sign of life, and where."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.api.worker import Pulse
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from tests.launchers.processes import wait_for


@pytest.fixture
def board() -> Iterator[HeartbeatBoard]:
    board = HeartbeatBoard.create(3)
    yield board
    board.close()


def test_each_process_has_its_place(board: HeartbeatBoard) -> None:
    board.place(1).beat()
    assert wait_for(lambda: board.pulse(1).silent > 0.5, 30)
    assert board.pulse(1).in_env
    assert board.pulse(0) == board.pulse(2) == Pulse()
    board.place(1).rest()
    assert board.pulse(1).silent < 0.5
    assert not board.pulse(1).in_env


def test_the_longest_silence_that_ended_is_kept(board: HeartbeatBoard) -> None:
    place = board.place(0)
    place.rest()
    assert board.pulse(0).longest == 0.0
    assert wait_for(lambda: board.pulse(0).silent > 0.3, 30)
    assert board.pulse(0).longest == 0.0, "it goes on"
    place.rest()
    place.rest()
    assert board.pulse(0).longest > 0.3


def test_a_new_life_has_given_no_sign(board: HeartbeatBoard) -> None:
    board.place(2).beat()
    assert wait_for(lambda: board.pulse(2).silent > 0, 30)
    board.clear(2)
    assert board.pulse(2) == Pulse()


def test_workers_may_take_longer_to_be_made_than_to_work(board: HeartbeatBoard) -> None:
    place = board.place(0)
    place.begin(100.0, in_env=True)
    assert board.pulse(0).in_env
    assert board.pulse(0).allowed == 100.0
    assert wait_for(lambda: board.pulse(0).silent > 0.05, 30), "how long it takes can be seen"
    place.rest()
    assert board.pulse(0).longest == 0.0, "the time that was granted is no silence"
    assert board.pulse(0).allowed == 0.0


def test_a_process_writes_where_the_launcher_reads(board: HeartbeatBoard) -> None:
    attached = HeartbeatBoard.attach(board.handle)
    attached.place(0).beat()
    assert wait_for(lambda: board.pulse(0).silent > 0, 30)
    attached.close()
