"""What one slow copy of an environment costs the others: 16 copies in processes (`env.vector: processes`), one of which sleeps a
second now and then.

A step takes 5 ms, in all copies alike. In the first run that is all; in the second one copy sleeps 1 s in a twentieth of its
steps; in the third it does so too, and everybody waits for it (`placement.exact: true`). They take turns. Learning costs nothing.
Prints environment steps per second after warm-up, and the share of what there is without the slow copy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import shoal

sys.path.insert(0, str(Path(__file__).parent))
from figures import median, slope

HERE = Path(__file__).parent
COPIES = 16
KINDS = {"all alike": (0.0, False), "one sleeps": (0.05, False), "one sleeps, all wait": (0.05, True)}
"""How often the slow copy sleeps, and whether all wait for it."""


def run(often: float, exact: bool, seconds: float) -> float:
    """Environment steps per second."""
    with tempfile.TemporaryDirectory() as root:
        experiment = shoal.Experiment.parse(_settings(often, exact, seconds, f"{root}/slow"))
        outcome = shoal.train(experiment, root=root, on="local", quiet=True)
        rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    return slope([(row["time/elapsed"], row["step"]) for row in rows])


def _settings(often: float, exact: bool, seconds: float, mark: str) -> dict[str, Any]:
    kwargs = {"seconds": 0.005, "often": often, "mark": mark}
    return {
        "env": {"id": f"{HERE}/sleeper.py:OneSleeper", "kwargs": kwargs, "num_envs": COPIES, "vector": "processes"},
        "algorithm": {"name": f"{HERE}/free_world.py:FreeAlgorithm", "unroll": 8, "passes": 0},
        "placement": {"actors": 1, "max_lag": 1, "exact": exact},
        "stop": {"seconds": seconds},
        "log": {"tensorboard": False},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run, from the start of its launcher")
    options = parser.parse_args()
    print(f"{options.repeats} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}")
    runs = [{name: run(*kind, options.seconds) for name, kind in KINDS.items()} for _ in range(options.repeats)]
    for name in KINDS:
        speeds = [each[name] for each in runs]
        share = statistics.median(each[name] / each["all alike"] for each in runs)
        print(f"  {name:20} {median(speeds, 0):>22} steps/s, {100 * share:3.0f} % of all alike", flush=True)


if __name__ == "__main__":
    main()
