"""Trials of rl-zoo3's own search, with settings that are given: settings in, seconds out.

    python rlzoo_tune.py '{"trials": [{...}], "steps": 20000, "evaluations": 2, "episodes": 10, "params": {...}, "jobs": 2, ...}'

`processes`: so many share the trials by a journal, as its documentation says; else `jobs` threads of one process do.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any


def sampled(given: dict[str, Any]) -> dict[str, Any]:
    """As the zoo's own sampler says it."""
    from torch import nn

    plain = {key: value for key, value in given.items() if key not in ("hidden", "activation")}
    if "hidden" not in given:
        return plain
    layers = {"pi": given["hidden"], "vf": given["hidden"]}
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[given["activation"]]
    return {**plain, "policy_kwargs": {"net_arch": layers, "activation_fn": activation, "ortho_init": False}}


def search(settings: dict[str, Any], folder: str) -> None:
    """In this process, as `python -m rl_zoo3.train` does it."""
    from rl_zoo3.hyperparams_opt import HYPERPARAMS_SAMPLER
    from rl_zoo3.train import train

    HYPERPARAMS_SAMPLER["ppo"] = lambda trial, *_: sampled(settings["trials"][trial.number])
    words = [
        "--algo", "ppo", "--env", "CartPole-v1", "-n", settings["steps"], "-optimize", "--sampler", "random", "--pruner", "none",
        "--n-evaluations", settings["evaluations"], "--eval-episodes", settings["episodes"], "--n-jobs", settings["jobs"],
        "--num-threads", settings["threads"], "-f", folder, "--no-optim-plots", "--verbose", 0, "--seed", 1, "--device", "cpu",
    ]  # fmt: skip
    if settings["processes"] > 1:
        shared = [
            "--storage",
            f"{folder}/trials.log",
            "--study-name",
            "search",
            "--max-total-trials",
            len(settings["trials"]),
        ]
    else:
        shared = ["--n-trials", len(settings["trials"])]
    params = [f"{name}:{value!r}" for name, value in settings["params"].items()]
    sys.argv = ["train.py", *map(str, [*words, *shared]), "-params", *params]
    train()


def main() -> None:
    """One search, or its part where several processes share one."""
    settings = json.loads(sys.argv[1])
    if "folder" in settings:
        search(settings, settings["folder"])
        return
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        parts = [
            subprocess.Popen(
                [sys.executable, __file__, json.dumps({**settings, "folder": folder})], stdout=subprocess.DEVNULL
            )
            for _ in range(settings["processes"])
        ]
        codes = [part.wait() for part in parts]
        if any(codes):
            sys.exit(f"exit codes {codes}")
        trials = [path.read_text().count("\n") - 1 for path in Path(folder).rglob("report_*.csv")]
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "trials": max(trials), "version": version("rl_zoo3")}))


if __name__ == "__main__":
    main()
