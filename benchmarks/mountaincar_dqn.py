"""Right, beside a peer: DQN on MountainCar-v0 as the public zoo of stable-baselines3 tuned it, both over the same seeds.

    python benchmarks/mountaincar_dqn.py --seeds 1 2 3 4 5

120,000 steps each, then 100 greedy episodes. The zoo plays one copy for 16 steps between two times of learning; ours plays 16
copies for one step each, which are as many rows per update, and so does stable-baselines3 in a row of its own. A score does not
hang on the load of the machine, so two runs may go on at a time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness import HERE, peer_python

ZOO: dict[str, Any] = {
    "steps": 120_000, "lr": 4e-3, "batch": 128, "capacity": 10_000, "warmup": 1_000, "gamma": 0.98, "target_steps": 600,
    "rows": 16, "updates": 8, "explored": 24_000, "epsilon": 0.07, "hidden": [256, 256], "episodes": 100,
}  # fmt: skip
SHOAL, COPIES, ONE = "shoal, 16 copies", "stable-baselines3, 16 copies", "stable-baselines3, one copy"


def ours(seed: int) -> float:
    """A run of its own, and `shoal evaluate` of it."""
    algorithm = {
        "name": "dqn", "lr": ZOO["lr"], "unroll": 1, "batch": ZOO["batch"], "capacity": ZOO["capacity"],
        "warmup": ZOO["warmup"], "gamma": ZOO["gamma"], "updates": ZOO["updates"], "double": False,
        "target_every": ZOO["target_steps"] * ZOO["updates"] // ZOO["rows"],
        "epsilon": {"start": 1.0, "end": ZOO["epsilon"], "steps": ZOO["explored"]},
    }  # fmt: skip
    recipe = {
        "env": {"id": "MountainCar-v0", "num_envs": ZOO["rows"]}, "algorithm": algorithm,
        "model": {"name": "mlp", "hidden": ZOO["hidden"], "activation": "relu"}, "stop": {"steps": ZOO["steps"]},
    }  # fmt: skip
    shoal = str(Path(sys.executable).with_name("shoal"))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mountaincar.yaml").write_text(json.dumps(recipe))
        words = ["--on", "inline", "--seed", str(seed), "--trial", "one", "log.tensorboard=false"]
        said_by([shoal, "train", "mountaincar.yaml", *words], folder)
        ask = ["evaluate", "mountaincar/one", "--episodes", str(ZOO["episodes"]), "--seed", str(seed + 1000), "--json"]
        return float(json.loads(said_by([shoal, *ask], folder))["mean_return"])


def theirs(seed: int, copies: int) -> float:
    """In an environment of its own."""
    script, settings = HERE / "peers" / "sb3_mountaincar.py", json.dumps({**ZOO, "num_envs": copies, "seed": seed})
    said = said_by([peer_python("sb3"), str(script), settings]).strip().splitlines()[-1]
    return float(json.loads(said)["mean_return"])


def said_by(command: list[str], folder: str | None = None) -> str:
    """What a command prints; one that fails raises."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


SIDES = {
    SHOAL: ours,
    COPIES: lambda seed: theirs(seed, ZOO["rows"]),
    ONE: lambda seed: theirs(seed, 1),
}


def main() -> None:
    """One row per side, printed as seeds are done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--at-once", type=int, default=2, help="runs at a time")
    given = parser.parse_args()
    peer_python("sb3")
    with ThreadPoolExecutor(given.at_once) as pool:
        found = {name: [pool.submit(side, seed) for seed in given.seeds] for name, side in SIDES.items()}
        print("| DQN | mean of seeds | greedy mean return of each |\n|---|---|---|")
        for name, runs in found.items():
            scores = [run.result() for run in runs]
            print(f"| {name} | {statistics.mean(scores):.1f} | {', '.join(f'{s:.1f}' for s in scores)} |", flush=True)


if __name__ == "__main__":
    main()
