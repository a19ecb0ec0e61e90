"""The conformance suite of transports: every Ring and every Mailbox keeps these promises."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from shoal.base.arrays import Layout
from shoal.streams.primitives import Mailbox, Ring

LAYOUT = Layout.of({"x": np.zeros((3, 2), np.float32), "id": np.zeros((), np.int64)})


def check_ring(make: Callable[[Layout, int], Ring]) -> None:
    """Order, credits, identity of slots, and waits that end."""
    _ring_keeps_order(make(LAYOUT, 3))
    _ring_bounds_what_is_in_flight(make(LAYOUT, 2))
    _ring_begins_the_same_slot_until_posted(make(LAYOUT, 2))
    _ring_refuses_wrong_order(make(LAYOUT, 2))
    _ring_gives_the_same_arrays(make(LAYOUT, 2))
    _ring_waits_no_longer_than_told(make(LAYOUT, 1))


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


def check_mailbox(make: Callable[[int, int], Mailbox]) -> None:
    """Versions come whole, newest first to go last, and never backwards."""
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
        assert not box.read(version - 2, out), "older versions are gone"
        assert not box.read(version + 1, out), "newer versions are not there yet"
    try:
        box.publish(3, np.zeros(16, np.uint8))
    except RuntimeError:
        return
    raise AssertionError("versions must not go backwards")
