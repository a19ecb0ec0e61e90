"""Trials of rl-zoo3's own search, with learning rates that are given: settings in, seconds out.

    python rlzoo_tune.py '{"rates": [...], "steps": 20000, "evaluations": 2, "episodes": 10, "params": {...}, "jobs": 2, ...}'

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


def search(settings: dict[str, Any], folder: str) -> None:
    """In this process, as `python -m rl_zoo3.train` does it."""
    from rl_zoo3.hyperparams_opt import HYPERPARAMS_SAMPLER
    from rl_zoo3.train import train

    rates = settings["rates"]
    HYPERPARAMS_SAMPLER["ppo"] = lambda trial, *_: {"learning_rate": rates[trial.number]}
    words = [
        "--algo", "ppo", "--env", "CartPole-v1", "-n", settings["steps"], "-optimize", "--sampler", "random", "--pruner", "none",
        "--n-evaluations", settings["evaluations"], "--eval-episodes", settings["episodes"], "--n-jobs", settings["jobs"],
        "--num-threads", settings["threads"], "-f", folder, "--no-optim-plots", "--verbose", 0, "--seed", 1, "--device", "cpu",
    ]  # fmt: skip
    if settings["processes"] > 1:
        shared = ["--storage", f"{folder}/trials.log", "--study-name", "search", "--max-total-trials", len(rates)]
    else:
        shared = ["--n-trials", len(rates)]
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
