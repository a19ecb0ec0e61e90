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
    pool = Pool([0], 3, spread=False)
    assert [pool.at(newest) for newest in (0, 1, 2, 3, 7)] == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [5, 6, 7]]


@pytest.mark.parametrize("first", [0, 40])
def test_spread_ones_come_from_the_whole_run(first: int) -> None:
    pool, size = Pool([first], 6, spread=True), 6
    for newest in range(first, first + 500):
        numbers = pool.at(newest)
        assert len(numbers) == min(size, newest - first + 1)
        assert (numbers[0], numbers[-1]) == (first, newest)
    gaps = np.diff(numbers)
    assert gaps.max() <= 2 * 500 / (size - 1), "no long time without a witness"
    assert Pool([first], 6, spread=True).at(newest) == numbers, "whoever comes late works out the same"


@pytest.mark.parametrize(
    ("size", "newest", "kept"),
    [
        (2, 500, [0, 500]),
        (3, 10, [0, 8, 10]),
        (3, 500, [0, 256, 500]),
        (3, 513, [0, 512, 513]),
        (4, 500, [0, 256, 384, 500]),
        (5, 7, [0, 2, 4, 6, 7]),
        (6, 500, [0, 128, 256, 384, 448, 500]),
    ],
)
def test_spread_ones_move_on_with_the_run(size: int, newest: int, kept: list[int]) -> None:
    assert Pool([0], size, spread=True).at(newest) == kept
    assert Pool([40], size, spread=True).at(40 + newest) == [40 + number for number in kept]


@pytest.mark.parametrize("size", range(3, 12))
def test_no_time_is_without_a_witness(size: int) -> None:
    """No gap is longer than twice that of numbers at even distances, however long the run is."""
    pool = Pool([0], size, spread=True)
    for newest in range(1000):
        gaps = np.diff(pool.at(newest))
        assert newest < size or gaps.max() <= 2 * newest / (size - 1), pool.at(newest)


def test_a_pool_of_one_is_the_newest() -> None:
    assert Pool([0], 1, spread=True).at(9) == [9]


@pytest.mark.parametrize("make", [MemoryMailbox, ShmMailbox])
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("saved", [False, True])
def test_what_is_met_can_be_read(
    make: Callable[[int, int], Mailbox], spread: bool, every: int, saved: bool
) -> None:  # fmt: skip
    """A reader `slack` numbers behind the writer, one who comes anew each time, and a writer who dies and comes back.

    `saved`: a checkpoint is written after each version, which changes nothing.
    """
    size, slack, first = 4, 2, 5
    box = make(8, size + slack + 1)
    out, behind = np.zeros(8, np.uint8), Pool([first], size, spread=spread)
    for version in range(first * every, (first + 40) * every):
        if version == first * every or version % 7 == 0:
            archive = Archive(box, every, Pool([first], size, spread=spread), slack)
        archive.keep(version, np.full(8, version, np.uint8))
        if saved:
            archive.kept(8)
        newest = version // every
        late = behind.at(max(first, newest - slack))
        for number in (*late, *Pool([first], size, spread=spread).at(newest)):
            assert box.read(number, out), f"{number} is gone when {newest} is the newest"
            assert (out == max(number * every, first * every)).all()
    if isinstance(box, ShmMailbox):
        box.close()


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("end", [3, 11, 40])
def test_a_resumed_run_meets_those_that_the_unbroken_one_meets(spread: bool, end: int) -> None:
    """What a checkpoint holds is all that is met when it is written, and from there both go on alike."""
    size, slack = 4, 2
    box, pool = MemoryMailbox(8, size + slack + 1), Pool([0], size, spread=spread)
    archive = Archive(box, 1, Pool([0], size, spread=spread), slack)
    for version in range(end + 1):
        archive.keep(version, np.full(8, version, np.uint8))
    held = archive.kept(8)
    assert sorted(map(int, held)) == pool.at(end)
    assert all((block == int(number)).all() for number, block in held.items())
    again = MemoryMailbox(8, size + slack + 1)
    later = Pool(sorted(map(int, held)), size, spread=spread)
    resumed = Archive(again, 1, Pool(sorted(map(int, held)), size, spread=spread), slack)
    resumed.restore(held)
    out = np.zeros(8, np.uint8)
    for version in range(end, end + 20):
        resumed.keep(version, np.full(8, version, np.uint8))
        assert later.at(version) == pool.at(version)
        for number in pool.at(version):
            assert again.read(number, out), f"{number} is gone when {version} is the newest"
            assert (out == number).all()
