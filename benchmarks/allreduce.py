"""How long replicas take to agree: one sum of a gradient between two processes on two cores.

Prints the median and the 99th percentile of one round in microseconds, over the shm Tally and, in the same run, over the
`all_reduce` of torch.distributed with gloo, the plain way on CPUs. In `busy` rounds both first compute for some 300 us, as a
trainer does: the other is then never quite in step, and what is left of the round is waiting and waking. The processes of the
Tally are pinned, those of gloo are not: it has threads of its own and is faster so.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from shoal.streams.transports.shm.tally import ShmTally

TIMEOUT = 30.0
BUSY = 300e-6


def over_tally(rank: int, floats: int, handle: object) -> Callable[[], object]:
    tally = ShmTally.attach(handle)  # type: ignore[arg-type]
    vector = np.random.default_rng(rank).normal(size=floats).astype(np.float32)
    return lambda: tally.sum(rank, vector, TIMEOUT)


def over_gloo(rank: int, floats: int, store: object) -> Callable[[], object]:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    atexit.register(distributed.destroy_process_group)
    vector = torch.zeros(floats)
    return lambda: distributed.all_reduce(vector)


GAMES = {"shm tally": over_tally, "gloo": over_gloo}


def play(game: str, rank: int, core: int, count: int, busy: bool, floats: int, meeting: object) -> list[float]:
    """Microseconds of each round; the first tenth, with the other's start in it, is left out."""
    if game == "shm tally":
        os.sched_setaffinity(0, {core})
    step, spans = GAMES[game](rank, floats, meeting), []
    for _ in range(count):
        began = time.perf_counter()
        while busy and time.perf_counter() - began < BUSY:
            pass
        began = time.perf_counter()
        step()
        spans.append((time.perf_counter() - began) * 1e6)
    return spans[count // 10 :]


def both(game: str, cores: list[int], *rest: object) -> list[float]:
    """Two processes of their own for each game; what rank 0 measured."""

    def start(rank: int) -> subprocess.Popen[str]:
        order = json.dumps([game, rank, cores[rank], *rest])
        return subprocess.Popen([sys.executable, __file__, "--play", order], stdout=subprocess.PIPE, text=True)

    players = [start(0), start(1)]
    try:
        said, _ = (player.communicate(timeout=120)[0] for player in players)
        return json.loads(said)
    finally:
        for player in players:
            player.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floats", type=int, default=9_000, help="numbers in a gradient")
    parser.add_argument("--count", type=int, default=3_000, help="rounds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--play", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        print(json.dumps(play(*json.loads(options.play))))
        return
    cores = sorted(os.sched_getaffinity(0))
    print(f"{options.floats} floats, {options.count} rounds, {len(cores)} cores, load {os.getloadavg()[0]:.2f}")
    for busy in (False, True):
        for _ in range(options.repeats):
            medians = {}
            for game in GAMES:
                tally = ShmTally(2, 4 * options.floats)
                with tempfile.TemporaryDirectory() as folder:
                    meeting = tally.handle if game == "shm tally" else f"{folder}/store"
                    spans = both(game, [cores[0], cores[-1]], options.count, busy, options.floats, meeting)
                medians[game] = float(np.median(spans))
                print(
                    f"  {'busy' if busy else 'idle'}: {game:10} "
                    f"median {medians[game]:7.1f} us, p99 {np.percentile(spans, 99):7.1f} us",
                    flush=True,
                )
            print(f"  gloo takes {medians['gloo'] / medians['shm tally']:.1f} times as long")


if __name__ == "__main__":
    main()
