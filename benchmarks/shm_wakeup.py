"""How long a wake-up takes: ping-pong between two processes over two rings of the shm transport.

Prints the median and the 99th percentile of a round trip (post, wake, take, post, wake, take) in microseconds, and beside it in the
same run the same game over a pair of pipes, the plain way to wake another process. Where the two processes sit decides most of it,
so both are pinned: to two cores, then to one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from shoal.base.arrays import Layout
from shoal.streams.transports.shm.ring import ShmRing

LAYOUT = Layout.of({"x": np.zeros(8, np.float32)})
TIMEOUT = 10.0


def hand_over(source: ShmRing, target: ShmRing) -> None:
    """Take one slot, post one slot."""
    slot, answer = source.take(TIMEOUT), target.begin(TIMEOUT)
    if slot is None or answer is None:
        raise SystemExit(f"no wake-up within {TIMEOUT} s")
    source.free(slot)
    target.post(answer)


def over_rings(count: int, core: int) -> list[float]:
    there, back = ShmRing(LAYOUT, 2), ShmRing(LAYOUT, 2)
    peer = start_peer("rings", count, core, there.handle, back.handle)

    def play() -> None:
        slot = there.begin(TIMEOUT)
        if slot is None:
            raise SystemExit(f"no credit within {TIMEOUT} s")
        there.post(slot)
        answer = back.take(TIMEOUT)
        if answer is None:
            raise SystemExit(f"no wake-up within {TIMEOUT} s")
        back.free(answer)

    return timed(play, count, peer)


def over_pipes(count: int, core: int) -> list[float]:
    (there_out, there_in), (back_out, back_in) = os.pipe(), os.pipe()
    peer = start_peer("pipes", count, core, there_out, back_in, pass_fds=(there_out, back_in))

    def play() -> None:
        os.write(there_in, b"x")
        os.read(back_out, 1)

    return timed(play, count, peer)


def start_peer(
    kind: str, count: int, core: int, *ends: object, pass_fds: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--peer", json.dumps([kind, count, core, *ends])]
    return subprocess.Popen(command, pass_fds=pass_fds)


def run_peer(kind: str, count: int, core: int, source: object, target: object) -> None:
    """The other side: send back whatever comes."""
    os.sched_setaffinity(0, {core})
    rings = [ShmRing.attach(handle) for handle in (source, target)] if kind == "rings" else None  # type: ignore[arg-type]
    for _ in range(count):
        if rings:
            hand_over(*rings)
        else:
            os.write(target, os.read(source, 1))  # type: ignore[arg-type]


def timed(play: Callable[[], None], count: int, peer: subprocess.Popen[bytes]) -> list[float]:
    """Microseconds of each round trip; the first tenth, with the peer's start in it, is left out."""
    spans = []
    try:
        for _ in range(count):
            began = time.perf_counter()
            play()
            spans.append((time.perf_counter() - began) * 1e6)
        peer.wait(TIMEOUT)
    finally:
        peer.kill()
    return spans[count // 10 :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000, help="round trips")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        run_peer(*json.loads(options.peer))
        return
    print(f"{options.count} round trips, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    for place, core in (("two cores", cores[-1]), ("one core", cores[0])):
        for name, game in (("shm rings", over_rings), ("pipes", over_pipes)) * options.repeats:
            spans = game(options.count, core)
            print(
                f"  {place}: {name:10} median {np.median(spans):7.1f} us, p99 {np.percentile(spans, 99):7.1f} us",
                flush=True,
            )


if __name__ == "__main__":
    main()
