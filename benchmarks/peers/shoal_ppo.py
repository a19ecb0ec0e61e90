"""Shoal's side: PPO with the settings given as JSON, for some seconds; prints one JSON line.

`shape`: `inline` is one process; `local` an actor and a trainer on every core, in step: no experience is older than the newest
version; `beside` an actor on one core and a trainer on the other, which learns from experience of one version before.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import torch

from shoal.api.experiment import Experiment
from shoal.runs.train import train

WORLDS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "env": {"id": "CartPole-v1", "vector": "loop"},
        "model": {"name": "mlp", "hidden": [64, 64], "activation": "tanh"},
        "algorithm": {"shared": False},
    },
    "pong": {
        "env": {"id": "ALE/Pong-v5", "clip_reward": 1, "kwargs": {"repeat_action_probability": 0.0}},
        "model": {"name": "nature"},
        "algorithm": {"shared": True, "entropy": 0.01},
    },
}


def experiment_of(settings: dict[str, Any]) -> Experiment:
    """The work that all sides do."""
    world, cores = WORLDS[settings["world"]], settings["cores"]
    shapes: dict[str, dict[str, Any]] = {
        "inline": {"trainers": 1},
        "local": {"trainers": cores, "actors": cores, "together": True, "agree": "allreduce", "max_lag": 0},
        "beside": {"trainers": 1, "actors": max(1, cores - 1), "together": False, "max_lag": 1},
    }
    taken = {name: settings[name] for name in ("unroll", "minibatch", "epochs", "lr")}
    return Experiment.parse(
        {
            "env": {**world["env"], "num_envs": settings["num_envs"]},
            "algorithm": {"name": "ppo", **taken, **world["algorithm"]},
            "model": world["model"],
            "placement": shapes[settings["shape"]],
            "stop": {"seconds": settings["seconds"]},
            "seed": settings["seed"],
        }
    )


def points_of(folder: Path) -> list[tuple[float, int]]:
    """Rows say seconds since the run began; the file was last written with its last row."""
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    began = path.stat().st_mtime - rows[-1]["time/elapsed"]
    return [(began + row["time/elapsed"], row["step"]) for row in rows]


def main() -> None:
    settings = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as root:
        outcome = train(
            experiment_of(settings), root=root, quiet=True, on="inline" if settings["shape"] == "inline" else "local"
        )
        points = points_of(Path(outcome.folder))
    print(json.dumps({"points": points, "version": f"gymnasium {gymnasium.__version__}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
