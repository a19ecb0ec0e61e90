"""Shared memory between real processes: order under load, deaths at random moments, nothing torn, nothing left behind."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from shoal.base.arrays import Layout
from shoal.base.errors import ShoalError
from shoal.streams.sample import HEADER
from shoal.streams.transports.shm import doorbell, futex
from shoal.streams.transports.shm.doorbell import Doorbell
from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import Owner, ShmRing
from shoal.streams.transports.shm.segment import Segment
from shoal.testing.transport import LAYOUT
from tests.streams.shm_child import ROOT, child, echo, hold, pattern, publish, result, watch, write

WIDE = Layout.of({"x": np.zeros(2_000, np.int64), "id": np.zeros((), np.int64)})


def take_next(ring: ShmRing, number: int) -> None:
    slot = ring.take(10.0)
    assert slot is not None, f"slot {number} did not come in 10 s"
    assert int(slot.arrays["id"]) == number
    assert (slot.arrays["x"] == number).all()
    ring.free(slot)


def fill_next(ring: ShmRing, timeout: float = 10.0) -> bool:
    slot = ring.begin(timeout)
    if slot is None:
        return False
    slot.arrays["x"][:] = ring.posted
    slot.arrays["id"][...] = ring.posted
    ring.post(slot)
    return True


def test_order_and_content_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell, "LOOKING", 0.0)  # sleep as often as can be
    ring, longest = ShmRing(WIDE, 3), 0.0
    with child(write, ring.handle, 20_000) as writer:
        for number in range(20_000):
            began = time.monotonic()
            take_next(ring, number)
            longest = max(longest, time.monotonic() - began)
        result(writer)
    assert (ring.waiting, ring.credits) == (0, 3)
    assert longest < 8.0, "a lost wake-up sleeps until its timeout of 10 s"


def test_a_killed_writer_is_followed_by_the_next() -> None:
    ring, taken = ShmRing(WIDE, 3), 0
    for incarnation in range(10):
        with child(write, ring.handle, 10**9, incarnation) as writer:
            until = time.monotonic() + random.uniform(0.0, 0.02)
            first = taken
            while taken == first or time.monotonic() < until:
                take_next(ring, taken)
                taken += 1
            writer.kill()
            writer.wait(10)
        while ring.waiting:
            take_next(ring, taken)
            taken += 1
    assert ring.posted == taken
    assert fill_next(ring), "the slot a dead writer had begun is begun again"
    take_next(ring, taken)


def test_a_killed_reader_loses_what_it_held_and_no_more() -> None:
    ring, reclaimed = ShmRing(WIDE, 4), 0
    for incarnation in range(1, 11):
        with child(hold, ring.handle, incarnation, 3) as reader:
            until, first = time.monotonic() + random.uniform(0.0, 0.02), ring.taken
            while ring.taken < first + 3 or time.monotonic() < until:
                assert fill_next(ring), "no credit in 10 s"
            reader.kill()
            reader.wait(10)
        after = ShmRing.attach(ring.handle, incarnation=incarnation)
        lost = [int(slot.arrays["id"]) for slot in after.held()]
        assert lost == list(range(after.taken - len(lost), after.taken)), "the last ones taken, in order"
        assert 2 <= len(lost) <= 3
        assert after.owner(lost[-1] % 4) == Owner(reader.pid, incarnation)
        reclaimed += after.reclaim()
        assert after.held() == []
        while after.waiting:
            take_next(after, after.taken)
        assert after.credits == 4
        after.close()
    assert reclaimed >= 20


def test_mailbox_is_never_torn() -> None:
    box = ShmMailbox(256 * 1024, 2)
    with child(watch, box.handle, 1.0) as one, child(watch, box.handle, 1.0) as two:
        while one.poll() is None or two.poll() is None:
            version = box.latest() + 1
            box.publish(version, pattern(version, 256 * 1024))
        for counts in (result(one), result(two)):
            assert counts["torn"] == counts["backwards"] == 0, counts
            assert counts["read"] > 100, counts
            assert counts["versions"] > 10, counts


def test_a_killed_publisher_leaves_whole_versions() -> None:
    box, out = ShmMailbox(256 * 1024, 2), np.zeros(256 * 1024, np.uint8)
    for _ in range(5):
        before = box.latest()
        with child(publish, box.handle) as writer:
            until = time.monotonic() + 10
            while box.latest() <= before + 1:
                assert time.monotonic() < until, "nothing published in 10 s"
                time.sleep(0.001)
            time.sleep(random.uniform(0.0, 0.01))
            writer.kill()
            writer.wait(10)
        newest = box.latest()
        for version in (newest - 1, newest):
            assert box.read(version, out)
            np.testing.assert_array_equal(out, pattern(version, len(out)))


def test_one_doorbell_for_two_rings_and_a_mailbox() -> None:
    bell = Doorbell.create()
    rings = [ShmRing(LAYOUT, 2, reader_bell=bell) for _ in range(2)]
    box = ShmMailbox(8, 1, bells=[bell])
    with child(write, rings[0].handle, 1), child(write, rings[1].handle, 1):
        for ring in rings:
            assert bell.wait_until(lambda ring=ring: ring.waiting > 0, 10.0)  # type: ignore[misc]
    with child(publish, box.handle):
        assert bell.wait_until(lambda: box.latest() >= 0, 10.0)
    other = ShmRing.attach(rings[0].handle, bells=[bell])
    assert other.reader_bell is bell
    other.close()
    bell.ring()


def test_waits_end_in_time_whatever_interrupts_them() -> None:
    ring = ShmRing(LAYOUT, 1)
    old = signal.signal(signal.SIGALRM, lambda *_: ring.reader_bell.ring())
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        began, busy = time.monotonic(), time.process_time()
        assert ring.take(0.2) is None
        assert 0.2 <= time.monotonic() - began < 2.0, "begun anew by every ring, it would never end"
        assert time.process_time() - busy < 0.1, "waiting is sleeping"
        assert fill_next(ring)
        began = time.monotonic()
        assert not fill_next(ring, 0.1)
        assert 0.1 <= time.monotonic() - began < 2.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_a_ring_between_the_question_and_the_sleep_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell, "LOOKING", 0.0)
    bell, asked = Doorbell.create(), []

    def ready() -> bool:
        asked.append(time.monotonic())
        if len(asked) == 2:  # the last question before the sleep: no, but right after it yes
            bell.ring()
        return len(asked) > 2

    assert bell.wait_until(ready, 3.0)
    assert asked[-1] - asked[0] < 1.0


def test_a_sleeper_is_woken_at_once() -> None:
    there, back = ShmRing(LAYOUT, 2), ShmRing(LAYOUT, 2)
    with child(echo, there.handle, back.handle, 300) as other:
        spans = []
        for number in range(300):
            time.sleep(0.001)  # long enough for the other to fall asleep
            assert fill_next(there)
            began = time.perf_counter()
            slot = back.take(10.0)
            assert slot is not None
            spans.append(time.perf_counter() - began)
            assert int(slot.arrays["id"]) == number
            back.free(slot)
        result(other)
    assert np.median(spans) < 0.005, "a lost wake-up would show as its timeout"


def test_nothing_is_left_behind() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    before = descriptors()
    bell = Doorbell.create()
    ring = ShmRing(LAYOUT, 2, writer_bell=bell)
    other = ShmRing.attach(ring.handle)
    box = ShmMailbox(100, 2, bells=[bell])
    same = ShmMailbox.attach(box.handle)
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "shoal" in line and "rw-s" in line]
    assert mapped
    assert all("/memfd:shoal (deleted)" in line for line in mapped), "no name, so nothing in /dev/shm"
    slot = ring.begin(0.0)
    assert slot is not None
    for thing in (same, box, other, ring, bell):
        thing.close()
    slot.arrays["x"][:] = 1.0  # still mapped, while it is held
    assert descriptors() == before + 1
    del slot
    assert descriptors() == before
    with pytest.raises(ValueError, match="released"):
        ring.take(0.0)
    with pytest.raises(OSError, match="Bad address"):
        bell.ring()
    with pytest.raises(ShoalError, match="outlives"):
        ShmRing.attach(ring.handle)


def test_slots_are_views_of_every_dtype_on_cache_lines() -> None:
    tree = {
        "obs": ({"a": np.zeros((2, 3), np.uint8)}, np.zeros(5, np.bool_)),
        "none": None,
        "head": np.zeros((), HEADER),
    }
    ring = ShmRing(Layout.of(tree), 2)
    other = ShmRing.attach(json.loads(json.dumps(ring.handle)), incarnation=7)
    slot = other.begin(0.0)
    assert slot is not None
    assert other.begin(0.0) is slot
    assert ring.owner(0) == (os.getpid(), 7)
    slot.arrays["obs"][0]["a"][:] = 5
    slot.arrays["head"]["rows"] = 12
    other.post(slot)
    seen = ring.take(0.0)
    assert seen is not None
    assert (seen.arrays["obs"][0]["a"] == 5).all()
    assert seen.arrays["head"]["rows"] == 12
    assert seen.arrays["none"] is None
    for leaf in (seen.arrays["obs"][0]["a"], seen.arrays["obs"][1], seen.arrays["head"]):
        assert leaf.ctypes.data % 64 == 0
    ring.free(seen)
    assert ring.owner(0) == (0, 0)


def test_memory_is_allocated_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = Segment.create(1_000_000)
    assert os.fstat(segment.handle.fd).st_blocks * 512 >= 1_000_000
    with pytest.raises(ShoalError, match=r"1,125,899,906,842,624 bytes .* fewer or smaller slots"):
        Segment.create(2**50)

    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ShoalError, match=r"cannot allocate 4,096 bytes .*No space left.* fewer or smaller slots"):
        Segment.create(4096)
    monkeypatch.setattr(futex, "_NUMBER", -1)
    with pytest.raises(ShoalError, match="x86_64 and aarch64"):
        Segment.create(4096)


INHERIT = """
import os, time
from shoal.streams.transports.shm.ring import ShmRing
from shoal.testing.transport import LAYOUT
ring = ShmRing(LAYOUT, 2)
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    other = ShmRing.attach(ring.handle)
    ring.post(ring.begin(0.0))
    print("inherited", other.take(0.0).index, flush=True)
os._exit(0)
"""


def test_an_inherited_descriptor_outlives_its_owner() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", INHERIT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=20)
    assert done.stdout == "inherited 0\n", done.stderr
