"""What the framework costs per environment step: real runs of an environment, a policy and an algorithm that cost nothing.

`local` is an actor process beside the trainer's, lag 1; `inline` is everything in one thread. Time is the slope between the rows of
`metrics.jsonl` after warm-up. Beside it, what environment and policy cost when called alone in a loop. The bar is for `local` with
512 copies; with 16 the cost per call of Python shows instead, so there microseconds per batched step are printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

import shoal

sys.path.insert(0, str(Path(__file__).parent))
from figures import median, slope
from free_world import AGENT, CoinPolicy, FreeWorld

from shoal.api.policy import Request

BAR = 2.0
"""Microseconds per environment step, local, 512 copies."""
PARTS = Path(__file__).with_name("free_world.py")
CASES = ((512, False), (512, True), (16, False))


def run(on: str, copies: int, truncates: bool, seconds: float) -> float:
    """Microseconds per environment step of one run."""
    with tempfile.TemporaryDirectory() as root:
        experiment = shoal.Experiment.parse(
            {
                "env": {"id": f"{PARTS}:FreeWorld", "num_envs": copies, "kwargs": {"truncates": truncates}},
                "algorithm": {"name": f"{PARTS}:FreeAlgorithm"},
                "placement": {"actors": 1, "max_lag": 1} if on == "local" else {"max_lag": 1},
                "stop": {"seconds": seconds},
                "log": {"tensorboard": False},
            }
        )
        outcome = shoal.train(experiment, root=root, on=on, quiet=True)
        rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    return 1e6 / slope([(row["time/elapsed"], row["step"]) for row in rows])


def alone(copies: int, truncates: bool, count: int = 5_000) -> float:
    """Microseconds per environment step of environment and policy with nothing around them."""
    world, policy = FreeWorld(copies, truncates=truncates), CoinPolicy()
    seen = torch.from_numpy(world.reset(0).turns[AGENT].observation[:, 0])
    request = Request(seen, torch.zeros(copies, dtype=torch.bool), torch.rand(copies, 1))
    with torch.inference_mode():
        began = time.perf_counter()
        for _ in range(count):
            world.step({AGENT: policy.act(request, explore=True).action.numpy()[:, None]})
    return (time.perf_counter() - began) / count / copies * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run, from the start of its launcher")
    options = parser.parse_args()
    print(
        f"{options.repeats} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; microseconds per environment step"
    )
    bars = []
    for copies, truncates in CASES:
        ends = "truncated" if truncates else "terminated"
        spans: dict[str, list[float]] = {"local": [], "inline": [], "alone": []}
        for _ in range(options.repeats):
            for on in ("local", "inline"):
                spans[on].append(run(on, copies, truncates, options.seconds))
            spans["alone"].append(alone(copies, truncates))
        for name, values in spans.items():
            call = f"{statistics.median(values) * copies:8.1f} per batched step"
            print(f"  {copies:4} copies, {ends:10} {name:7} {median(values, 3):>26} {call}", flush=True)
        if copies == 512:
            bars.append(statistics.median(spans["local"]))
    verdict = "met" if max(bars) <= BAR else "MISSED"
    print(f"bar: local, 512 copies, at most {BAR} microseconds per step: {max(bars):.3f}, {verdict}")
    if max(bars) > BAR:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
