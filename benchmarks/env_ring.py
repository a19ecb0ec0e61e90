"""What a ring of Envs brings: an actor process with copies of an environment that sleeps, and a policy worker that decides for it.

Without a ring, stepping and deciding take turns. With one, an Env is stepped while the others wait for their decisions; with
`env.background` besides, every Env of the ring steps in a thread of its own, so that their sleeps overlap too. Two environments:
`sleeping`, 8 copies that sleep 5 ms a step, where deciding is nothing; `thinking`, 32 copies that sleep 0.25 ms, where deciding
takes about as long as stepping. The trainer does nothing. Prints environment steps per second after warm-up, the gain over no
ring, and the share of its time that the policy worker worked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import shoal

sys.path.insert(0, str(Path(__file__).parent))
from figures import median, slope

HERE = Path(__file__).parent


class World(NamedTuple):
    copies: int
    seconds: float
    passes: int


WORLDS = {"sleeping": World(8, 0.005, 0), "thinking": World(32, 0.00025, 80)}
PLACES = {
    "sleeping": ((1, False), (2, False), (8, False), (2, True), (8, True)),
    "thinking": ((1, False), (2, False), (2, True)),
}
"""Envs in the ring, and whether they step in threads."""


def run(world: World, ring: int, background: bool, seconds: float) -> tuple[float, float]:
    """Environment steps per second, and the share of its time that the policy worker worked."""
    with tempfile.TemporaryDirectory() as root:
        experiment = shoal.Experiment.parse(_settings(world, ring, background, seconds))
        outcome = shoal.train(experiment, root=root, on="local", quiet=True)
        rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    worked = [row["time/policy_worked"] for row in rows[len(rows) // 5 :] if "time/policy_worked" in row]
    return slope([(row["time/elapsed"], row["step"]) for row in rows]), statistics.fmean(worked)


def _settings(world: World, ring: int, background: bool, seconds: float) -> dict[str, Any]:
    sleeper = {"id": f"{HERE}/sleeper.py:Sleeper", "kwargs": {"seconds": world.seconds}}
    return {
        "env": {**sleeper, "num_envs": world.copies, "background": background},
        "algorithm": {"name": f"{HERE}/free_world.py:FreeAlgorithm", "unroll": 8, "passes": world.passes},
        "placement": {"actors": 1, "inference": "worker", "ring": ring, "max_lag": 1},
        "stop": {"seconds": seconds},
        "log": {"tensorboard": False},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run, from the start of its launcher")
    options = parser.parse_args()
    print(f"{options.repeats} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}")
    for name, places in PLACES.items():
        runs = [{place: run(WORLDS[name], *place, options.seconds) for place in places} for _ in range(options.repeats)]
        base = statistics.median(each[1, False][0] for each in runs)
        for place in places:
            speeds, worked = zip(*(each[place] for each in runs), strict=True)
            how = f"ring {place[0]}{', threads' if place[1] else ''}" if place[0] > 1 else "no ring"
            gain, share = statistics.median(speeds) / base, statistics.median(worked)
            print(
                f"  {name}: {how:16} {median(list(speeds), 0):>22} steps/s, {gain:4.2f} times, "
                f"policy worker worked {100 * share:3.0f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
