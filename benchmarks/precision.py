"""What bfloat16 and torch.compile cost or bring on the CPU: updates of three algorithms, all ways in turn, again and again.

`fp32` is the default, with kernels written by hand where the network is a small one. The others have none: they stand aside for
another arithmetic. A ratio above 1 is faster than fp32 in the same round. One thread, as in a run; `first` is what the first update
took, with its compiling.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

sys.path.insert(0, str(Path(__file__).parent))
from figures import median

from shoal.algorithms import ALGORITHMS
from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Algorithm, Task
from shoal.api.env import AgentGroup
from shoal.api.fragment import Fragment
from shoal.base.arithmetic import PLAIN, Arithmetic
from shoal.base.config import Named
from shoal.testing.experience import batch_of

WAYS = {
    "fp32": PLAIN,
    "bf16": Arithmetic(bf16=True),
    "compile": Arithmetic(compiled=True),
    "bf16 + compile": Arithmetic(bf16=True, compiled=True),
}
VECTOR, IMAGE = Box(-5.0, 5.0, (17,), np.float32), Box(0, 255, (4, 84, 84), np.uint8)
PPO = {"name": "ppo", "unroll": 64, "minibatch": 256, "epochs": 2}
SAC = {"name": "sac", "unroll": 1, "batch": 256, "capacity": 1_000, "warmup": 256}
CASES: dict[str, tuple[AgentGroup, dict[str, Any], dict[str, Any], int]] = {
    "PPO, MLP 64 x 64": (AgentGroup(("a",), VECTOR, Discrete(6)), PPO, {"name": "mlp", "hidden": [64, 64]}, 32),
    "SAC, MLP 256 x 256": (
        AgentGroup(("a",), VECTOR, Box(-1.0, 1.0, (6,), np.float32)), SAC,
        {"name": "mlp", "hidden": [256, 256], "activation": "relu"}, 256,
    ),
    "PPO, Nature network": (
        AgentGroup(("a",), IMAGE, Discrete(6)), {**PPO, "unroll": 32, "epochs": 1}, {"name": "nature"}, 16,
    ),
}  # fmt: skip
"""Name -> agents, algorithm, model, lanes."""


def made(case: str, way: str) -> tuple[Algorithm, Fragment]:
    group, algorithm, model, lanes = CASES[case]
    kind, task = ALGORITHMS.load(algorithm["name"]), Task(group, lanes, 0, horizon=1_000_000)
    settings = {key: value for key, value in algorithm.items() if key != "name"}
    built: Algorithm = kind(kind.Config.parse(settings), Named.parse(model), task)
    batch = batch_of(built, task, seed=1, masked=False)
    built.compute_by(WAYS[way])
    return built, batch


def seconds(algorithm: Algorithm, batch: Fragment, updates: int) -> float:
    """Of one update."""
    learner, began = SoloLearner(), time.perf_counter()
    for _ in range(updates):
        learner.collect(algorithm.update(batch, learner))
    return (time.perf_counter() - began) / updates


def measure(case: str, rounds: int, least: float) -> None:
    """All ways in turn; a turn lasts at least so many seconds."""
    algorithms = {way: made(case, way) for way in WAYS}
    firsts = {way: seconds(*algorithms[way], 1) for way in WAYS}
    counts = {way: max(1, round(least / seconds(*algorithms[way], 1))) for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            times[way].append(seconds(*algorithms[way], counts[way]))
    print(f"\n{case}: {len(algorithms['fp32'][1].lanes)} lanes")
    for way in WAYS:
        ratios = [one / other for one, other in zip(times["fp32"], times[way], strict=True)]
        took = median([1000 * each for each in times[way]], 2)
        print(f"  {way:15} {took:28} ms an update   {median(ratios, 2):20} x fp32   first {firsts[way]:5.1f} s")


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each way")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a turn lasts at least")
    parser.add_argument("--case", choices=CASES, action="append", help="only this one; may be given again")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, {given.rounds} rounds; bfloat16 in hardware: {_has_bf16()}")
    for case in given.case or CASES:
        measure(case, given.rounds, given.seconds)


def _has_bf16() -> str:
    here = torch.backends.cpu.get_cpu_capability()
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return f"{'yes' if 'avx512_bf16' in flags or 'amx_bf16' in flags else 'no'} ({here})"


if __name__ == "__main__":
    main()
