"""The conformance suite of transports: every Ring, every Mailbox and every Tally keeps these promises."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from shoal.base.arrays import Layout
from shoal.streams.primitives import AbandonedError, Mailbox, Ring, Slot, Tally

LAYOUT = Layout.of({"x": np.zeros((3, 2), np.float32), "id": np.zeros((), np.int64)})


def check_ring(make: Callable[[Layout, int], Ring]) -> None:
    """Order, credits, identity of slots, and waits that end."""
    _ring_keeps_order(make(LAYOUT, 3))
    _ring_bounds_what_is_in_flight(make(LAYOUT, 2))
    _ring_begins_the_same_slot_until_posted(make(LAYOUT, 2))
    _ring_refuses_wrong_order(make(LAYOUT, 2))
    _ring_gives_the_same_arrays(make(LAYOUT, 2))
    _ring_waits_no_longer_than_told(make(LAYOUT, 1))
    _ring_gives_a_new_reader_what_the_dead_one_held(make(LAYOUT, 4))


def _fill(ring: Ring, number: int) -> bool:
    slot = ring.begin(0.0)
    if slot is None:
        return False
    slot.arrays["x"][:] = number
    slot.arrays["id"][...] = number
    ring.post(slot)
    return True


def _ring_keeps_order(ring: Ring) -> None:
    sent = got = 0
    random = np.random.default_rng(0)
    while got < 200:
        if sent < 200 and random.random() < 0.6:
            sent += _fill(ring, sent)
        elif (slot := ring.take(0.0)) is not None:
            assert int(slot.arrays["id"]) == got, "slots must come in the order in which they were posted"
            assert (slot.arrays["x"] == got).all(), "a slot must hold what was written"
            ring.free(slot)
            got += 1


def _ring_bounds_what_is_in_flight(ring: Ring) -> None:
    assert ring.take(0.0) is None, "an empty ring has nothing to take"
    assert _fill(ring, 0)
    assert _fill(ring, 1)
    assert not _fill(ring, 2), "a full ring gives no slot"
    first = ring.take(0.0)
    assert first is not None
    assert not _fill(ring, 2), "a taken slot is still in flight"
    ring.free(first)
    assert _fill(ring, 2), "a freed slot is a credit"


def _ring_begins_the_same_slot_until_posted(ring: Ring) -> None:
    one, two = ring.begin(0.0), ring.begin(0.0)
    assert one is not None
    assert two is not None
    assert one.index == two.index, "begin without post gives the same slot"


def _ring_refuses_wrong_order(ring: Ring) -> None:
    _fill(ring, 0)
    _fill(ring, 1)
    first, second = ring.take(0.0), ring.take(0.0)
    assert first is not None
    assert second is not None
    for wrong in (lambda: ring.free(second), lambda: ring.post(first)):
        try:
            wrong()
        except RuntimeError:
            continue
        raise AssertionError("an operation out of order must be refused")
    ring.free(first)
    ring.free(second)


def _ring_gives_the_same_arrays(ring: Ring) -> None:
    seen: dict[int, set[int]] = {0: set(), 1: set()}
    for _ in range(3 * ring.slots):
        slot = ring.begin(0.0)
        assert slot is not None
        seen[slot.index].add(id(slot.arrays["x"]))
        ring.post(slot)
        taken = ring.take(0.0)
        assert taken is not None
        ring.free(taken)
    assert all(len(arrays) == 1 for arrays in seen.values()), "a slot's arrays must be built once, not at each call"


def _ring_waits_no_longer_than_told(ring: Ring) -> None:
    began = time.monotonic()
    assert ring.take(0.05) is None
    assert _fill(ring, 0)
    assert ring.begin(0.05) is None
    assert time.monotonic() - began < 1.0, "a wait must end at its timeout"


def _ring_gives_a_new_reader_what_the_dead_one_held(ring: Ring) -> None:
    ring.rewind()
    assert ring.take(0.0) is None, "a reader that held nothing leaves nothing"
    for number in range(4):
        assert _fill(ring, number)
    first = ring.take(0.0)
    assert first is not None
    ring.free(first)
    assert _fill(ring, 4)
    assert [_id(ring.take(0.0)) for _ in range(2)] == [1, 2]
    assert [_id(slot) for slot in ring.held()] == [1, 2], "a dead reader's slots are kept"
    assert not _fill(ring, 5), "what a dead reader held is still in flight"
    ring.rewind()
    assert ring.held() == []
    assert not _fill(ring, 5), "what is to be taken again is still in flight"
    for number in range(1, 5):
        slot = ring.take(0.0)
        assert _id(slot) == number, "a new reader takes again what the dead one had taken and not freed, then goes on"
        assert slot is not None
        assert (slot.arrays["x"] == number).all(), "a slot must still hold what was written"
        ring.free(slot)
    assert ring.take(0.0) is None
    assert (ring.posted, ring.taken, ring.freed) == (5, 5, 5)


def _id(slot: Slot | None) -> int | None:
    return None if slot is None else int(slot.arrays["id"])


def check_mailbox(make: Callable[[int, int], Mailbox]) -> None:
    """Versions come whole, newest first to go last, and never backwards; those that are to be kept stay."""
    _mailbox_keeps_what_it_is_told(make(16, 3))
    box = make(16, 2)
    out = np.zeros(16, np.uint8)
    assert box.latest() == -1, "nothing was published yet"
    assert not box.read(0, out), "what is not there cannot be read"
    for version in range(5):
        box.publish(version, np.full(16, version, np.uint8))
        assert box.latest() == version
        for held in (version - 1, version):
            if held >= 0:
                assert box.read(held, out), f"version {held} should still be held"
                assert (out == held).all(), "a version must be read whole"
        assert not box.read(version - 2, out), "older versions are removed"
        assert not box.read(version + 1, out), "newer versions are not there yet"
    try:
        box.publish(3, np.zeros(16, np.uint8))
    except RuntimeError:
        return
    raise AssertionError("versions must not go backwards")


def _mailbox_keeps_what_it_is_told(box: Mailbox) -> None:
    out = np.zeros(16, np.uint8)
    for version in range(8):
        box.publish(version, np.full(16, version, np.uint8), keep=(0,))
        for held in {0, max(0, version - 1), version}:
            assert box.read(held, out), f"version {held} should still be held"
            assert (out == held).all(), "a version must be read whole"
        assert version < 3 or not box.read(version - 2, out), "the oldest of the others makes room"


MakeTally = Callable[[int, int], Tally]
SOON = 10.0
"""Seconds in which everything here has happened long ago."""


def check_tally(make: MakeTally) -> None:
    """Equal bits for all, whole rounds, refusals on all sides alike, and waits that end."""
    for ranks in (1, 2, 3):
        _tally_sums_in_rank_order(make(ranks, 8 * 100))
    _tally_waits_for_all(make(2, 64))
    _tally_refuses_parts_that_differ(make(3, 64))
    _tally_refuses_what_it_cannot_hold(make(1, 64))
    _tally_is_abandoned_and_renewed(make(2, 64))


def _at_once(ranks: int, job: Callable[[int], Any]) -> list[Any]:
    """What `job(rank)` returned or raised, each rank in a thread of its own."""

    def run(rank: int) -> Any:
        try:
            return job(rank)
        except Exception as error:
            return error

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run, range(ranks)))


def _part(rank: int, round_: int) -> np.ndarray:
    """Of many magnitudes, so that another order gives other bits; length and dtype change from round to round."""
    random = np.random.default_rng((rank, round_))
    vector = random.normal(size=1 + 7 * (round_ % 14)) * 10.0 ** random.integers(-6, 6)
    return vector.astype(np.float32 if round_ % 3 else np.float64)


def _tally_sums_in_rank_order(tally: Tally, rounds: int = 150) -> None:
    def job(rank: int) -> list[bytes]:
        return [tally.sum(rank, _part(rank, round_), SOON).tobytes() for round_ in range(rounds)]

    answers = _at_once(tally.ranks, job)
    for round_ in range(rounds):
        expected = _part(0, round_)
        for rank in range(1, tally.ranks):
            expected = expected + _part(rank, round_)
        for answer in answers:
            assert not isinstance(answer, Exception), answer
            assert answer[round_] == expected.tobytes(), "all get the sum in the order of ranks, to the last bit"


def _raises(kind: type[Exception], call: Callable[[], Any]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was due")


def _tally_waits_for_all(tally: Tally) -> None:
    ones, twos = np.ones(4, np.float32), np.full(4, 2, np.float32)
    began = time.monotonic()
    assert "[1]" in _raises(TimeoutError, lambda: tally.sum(0, ones, 0.05)), "who is missing must be named"
    assert 0.05 <= time.monotonic() - began < 1.0, "a wait must end at its timeout"
    _raises(RuntimeError, lambda: tally.sum(0, twos, 0.0))
    assert (tally.sum(1, twos, SOON) == 3).all(), "what was brought before the timeout counts"
    _raises(TimeoutError, lambda: tally.sum(1, twos, 0.0))
    assert (tally.sum(0, ones, SOON) == 3).all(), "the same call again goes on with the same round"
    assert (tally.sum(0, twos, SOON) == 4).all()
    assert (tally.sum(1, twos, SOON) == 4).all()


def _tally_refuses_parts_that_differ(tally: Tally) -> None:
    parts = {
        ("3 numbers", "5 numbers"): (np.zeros(3), np.zeros(5)),
        ("float32", "float64"): (np.zeros(1, "f"), np.zeros(1)),
    }
    for named, (usual, other) in parts.items():
        brought = [usual, other, usual]
        for error in _at_once(3, lambda rank, brought=brought: tally.sum(rank, brought[rank], SOON)):  # type: ignore[misc]
            assert isinstance(error, ValueError), f"every rank must refuse, got {error!r}"
            assert all(text in str(error) for text in named), f"both must be named: {error}"
    for total in _at_once(3, lambda rank: tally.sum(rank, np.ones(2), SOON)):
        assert (total == 3).all(), "the round after a refusal is as any other"


def _tally_refuses_what_it_cannot_hold(tally: Tally) -> None:
    assert "72 bytes" in _raises(ValueError, lambda: tally.sum(0, np.zeros(9), 0.0))
    _raises(ValueError, lambda: tally.sum(0, np.zeros(2, np.int64), 0.0))
    _raises(ValueError, lambda: tally.sum(0, np.zeros((2, 2)), 0.0))
    assert (tally.sum(0, np.ones(8), 0.0) == 1).all(), "a refused call is no part"


def _tally_is_abandoned_and_renewed(tally: Tally) -> None:
    for _ in range(10):
        tally.abandon()
        began = time.monotonic()
        _raises(AbandonedError, lambda: tally.sum(0, np.ones(2), SOON))
        tally.renew()
        _raises(TimeoutError, lambda: tally.sum(0, np.ones(2), 0.0))
        with ThreadPoolExecutor(1) as pool:
            waiter = pool.submit(tally.sum, 0, np.ones(2), SOON)
            tally.abandon()
            assert isinstance(waiter.exception(SOON), AbandonedError), "whoever waits must be told"
        _raises(AbandonedError, lambda: tally.sum(1, np.zeros(2), SOON))
        assert time.monotonic() - began < SOON / 2, "an abandoned tally lets nobody wait"
        tally.renew()
        for total in _at_once(2, lambda rank: tally.sum(rank, np.full(2, 1.5 * rank), SOON)):
            assert (total == 1.5).all(), "a renewed tally starts anew"
