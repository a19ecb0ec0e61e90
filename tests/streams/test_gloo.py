"""Sums over replicas on several machines: waits that end, and meetings that come after each other at one point."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shoal.streams.primitives import AbandonedError
from shoal.streams.transports.ray.gloo import GlooTally, MeetingPoint


def pair(point: MeetingPoint, meeting: int = 0) -> list[GlooTally]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda rank: GlooTally(point, rank, 2, 80, "127.0.0.1", meeting), range(2)))


def test_who_waits_is_told_so_and_goes_on_with_the_same_sum() -> None:
    first, second = pair(MeetingPoint())
    ones, twos = np.ones(10), np.full(10, 2.0)
    for _ in range(3):
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(TimeoutError, match="not all 2 ranks came"):
                first.sum(0, ones, 0.05)
            assert 0.04 < time.monotonic() - began < 4.0
        with ThreadPoolExecutor(2) as pool:
            sums = list(
                pool.map(lambda call: call(), (lambda: first.sum(0, ones, 5.0), lambda: second.sum(1, twos, 5.0)))
            )
        assert all((found == 3.0).all() for found in sums)


def test_a_rank_that_is_gone_ends_the_wait_of_the_other() -> None:
    first, second = pair(MeetingPoint())
    with pytest.raises(TimeoutError):
        first.sum(0, np.ones(2), 0.05)
    del second
    with pytest.raises(AbandonedError):
        first.sum(0, np.ones(2), 5.0)


def test_replicas_meet_again_at_the_same_point() -> None:
    point = MeetingPoint()
    before = pair(point)
    after = pair(point, meeting=1)
    with ThreadPoolExecutor(2) as pool:
        sums = list(pool.map(lambda rank: after[rank].sum(rank, np.ones(3), 5.0), range(2)))
    assert all((found == 2.0).all() for found in sums)
    del before
    point.set(0, "late", b"of the dead")
    assert point.get(1, "late", 0.0) is None
    assert point.get(0, "late", 5.0) is None, "others have met since: nobody waits"


def test_a_wait_at_a_point_ends_when_others_meet() -> None:
    point, found = MeetingPoint(), []
    wait: Callable[[], None] = lambda: found.append(point.get(0, "never", 60.0))  # noqa: E731
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    point.set(1, "key", b"new")
    waiting.join(5.0)
    assert found == [None]
