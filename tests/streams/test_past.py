"""Earlier versions of a policy: which are met, and that those are there to be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shoal.streams.past import Archive, Pool
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.memory import MemoryMailbox
from shoal.streams.transports.shm.mailbox import ShmMailbox


def test_the_newest_are_met() -> None:
    pool = Pool(0, 3, spread=False)
    assert [pool.at(newest) for newest in (0, 1, 2, 3, 7)] == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [5, 6, 7]]


@pytest.mark.parametrize("first", [0, 40])
def test_spread_ones_come_from_the_whole_run(first: int) -> None:
    pool, size = Pool(first, 6, spread=True), 6
    for newest in range(first, first + 500):
        numbers = pool.at(newest)
        assert len(numbers) == min(size, newest - first + 1)
        assert (numbers[0], numbers[-1]) == (first, newest)
    gaps = np.diff(numbers)
    assert gaps.max() <= 3 * 500 / (size - 1), "no long time without a witness"
    assert Pool(first, 6, spread=True).at(newest) == numbers, "whoever comes late works out the same"


def test_a_pool_of_one_is_the_newest() -> None:
    assert Pool(0, 1, spread=True).at(9) == [9]


@pytest.mark.parametrize("make", [MemoryMailbox, ShmMailbox])
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("every", [1, 3])
def test_what_is_met_can_be_read(make: Callable[[int, int], Mailbox], spread: bool, every: int) -> None:
    """A reader `slack` numbers behind the writer, one who comes anew each time, and a writer who dies and comes back."""
    size, slack, first = 4, 2, 5
    box = make(8, size + slack + 1)
    out, behind = np.zeros(8, np.uint8), Pool(first, size, spread=spread)
    for version in range(first * every, (first + 40) * every):
        if version == first * every or version % 7 == 0:
            archive = Archive(box, every, Pool(first, size, spread=spread), slack)
        archive.keep(version, np.full(8, version, np.uint8))
        newest = version // every
        late = behind.at(max(first, newest - slack))
        for number in (*late, *Pool(first, size, spread=spread).at(newest)):
            assert box.read(number, out), f"{number} is gone when {newest} is the newest"
            assert (out == max(number * every, first * every)).all()
    if isinstance(box, ShmMailbox):
        box.close()
