"""What the other process does in tests of the shm transport: `python shm_child.py <job> <json arguments>`. No torch in here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import ShmRing
from shoal.streams.transports.shm.tally import ShmTally

ROOT = Path(__file__).parents[2]


@contextmanager
def child(job: Callable[..., Any], *arguments: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a job of this file in a process of its own, which does not outlive the block."""
    command = [sys.executable, __file__, job.__name__, json.dumps(arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def result(process: subprocess.Popen[str]) -> Any:
    """What the job returned."""
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0, f"the child ended with {process.returncode}"
    return json.loads(out)


def write(handle: Any, count: int, incarnation: int = 0) -> None:
    """Post numbered slots, going on where the ring stands, until `count` were posted in all."""
    ring = ShmRing.attach(handle, incarnation=incarnation)
    while (number := ring.posted) < count:
        slot = ring.begin(10.0)
        assert slot is not None, "no credit in 10 s"
        slot.arrays["x"][:] = number
        slot.arrays["id"][...] = number
        ring.post(slot)


def hold(handle: Any, incarnation: int, most: int) -> None:
    """Take slots and free each only when `most` are held, for ever."""
    ring = ShmRing.attach(handle, incarnation=incarnation)
    while True:
        slot = ring.take(10.0)
        assert slot is not None, "nothing to take in 10 s"
        if len(ring.held()) == most:
            ring.free(ring.held()[0])


def obey(orders: Any, heard: Any, incarnation: int, most: int, last: int) -> None:
    """Take what a dead predecessor held once more, then go on to `last`; tell of each slot, free each only when `most` are held."""
    source, target = ShmRing.attach(orders, incarnation=incarnation), ShmRing.attach(heard, incarnation=incarnation)
    source.rewind()
    number = -1
    while number < last:
        slot, answer = source.take(10.0), target.begin(10.0)
        assert slot is not None, "nothing to take in 10 s"
        assert answer is not None, "nobody listens"
        number = int(slot.arrays["id"])
        answer.arrays["id"][...] = number
        target.post(answer)
        if len(source.held()) == most:
            source.free(source.held()[0])
    source.reclaim()


def echo(there: Any, back: Any, count: int) -> None:
    """Send back what comes, `count` times."""
    source, target = ShmRing.attach(there), ShmRing.attach(back)
    for _ in range(count):
        slot, answer = source.take(10.0), target.begin(10.0)
        assert slot is not None
        assert answer is not None
        answer.arrays["id"][...] = slot.arrays["id"]
        source.free(slot)
        target.post(answer)


def publish(handle: Any) -> None:
    """Publish version after version, for ever."""
    box = ShmMailbox.attach(handle)
    while True:
        version = box.latest() + 1
        box.publish(version, pattern(version, box.handle.nbytes))


def pattern(version: int, nbytes: int) -> np.ndarray:
    """A block in which every word tells the version, and its place."""
    return (np.arange(nbytes // 8, dtype=np.int64) + version * 1_000_003).view(np.uint8)


def watch(handle: Any, seconds: float) -> dict[str, int]:
    """Read the newest version and the one before, over and over; every block must be whole, and none older than the last."""
    box = ShmMailbox.attach(handle)
    block = np.zeros(box.handle.nbytes, np.uint8)
    until, last = time.monotonic() + seconds, -1
    counts = {"read": 0, "gone": 0, "torn": 0, "backwards": 0, "versions": 0}
    while time.monotonic() < until:
        newest = box.latest()
        counts["backwards"] += newest < last
        counts["versions"] += newest > last
        last = newest
        for version in (newest, newest - 1):
            if box.read(version, block):
                counts["read"] += 1
                counts["torn"] += not np.array_equal(block, pattern(version, len(block)))
            else:
                counts["gone"] += 1
    return counts


def bring(handle: Any, rank: int, rounds: int) -> str | None:
    """Sum `rounds` rounds; what was wrong with the first wrong sum, if one was."""
    tally = ShmTally.attach(handle)
    for round_ in range(rounds):
        if (total := tally.sum(rank, part(rank, round_, tally.nbytes), 10.0)).tobytes() != whole(tally, round_):
            return f"round {round_}: {total}"
    return None


def part(rank: int, round_: int, nbytes: int) -> np.ndarray:
    """Every number tells rank, round and place; sums of them are exact."""
    return np.arange(nbytes // 8, dtype=np.float64) * 8 + rank + 100_000 * round_


def whole(tally: ShmTally, round_: int) -> bytes:
    """The sum that is due."""
    return sum(part(rank, round_, tally.nbytes) for rank in range(tally.ranks)).tobytes()  # type: ignore[union-attr]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*json.loads(sys.argv[2]))))
    assert "torch" not in sys.modules, "the shm transport must not need torch"
