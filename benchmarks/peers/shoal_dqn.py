"""Shoal's side: DQN on CartPole-v1 with the settings given as JSON, for some seconds; prints one JSON line.

`shape`: `inline` is one process; `beside` an actor on one core and a trainer on the other, which keeps experience of one version
before. `single`: sequences of one step each, as the peers keep them, instead of `unroll` steps that are drawn together.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import torch
from shoal_ppo import points_of

from shoal.api.experiment import Experiment
from shoal.launchers.train import train

SHAPES: dict[str, dict[str, Any]] = {
    "inline": {"trainers": 1},
    "beside": {"trainers": 1, "actors": 1, "together": False, "max_lag": 1},
}


def experiment_of(settings: dict[str, Any]) -> Experiment:
    """The work that all sides do."""
    taken = {name: settings[name] for name in ("batch", "target_every", "capacity", "warmup", "lr")}
    unroll, updates = settings["unroll"], settings["updates"]
    if settings.get("single"):
        unroll, updates = 1, updates // unroll
    return Experiment.parse(
        {
            "env": {"id": "CartPole-v1", "vector": "loop", "num_envs": settings["num_envs"]},
            "algorithm": {"name": "dqn", "double": False, "unroll": unroll, "updates": updates, **taken},
            "model": {"name": "mlp", "hidden": [64, 64], "activation": "relu"},
            "placement": SHAPES[settings["shape"]],
            "stop": {"seconds": settings["seconds"]},
            "seed": settings["seed"],
        }
    )


def main() -> None:
    settings = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as root:
        outcome = train(
            experiment_of(settings), root=root, quiet=True, on="inline" if settings["shape"] == "inline" else "local"
        )
        folder = Path(outcome.folder)
        points = points_of(folder)
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    document = {"points": points, "trained": settings["batch"] * last["train/updates_per_row"]}
    print(json.dumps({**document, "version": f"gymnasium {gymnasium.__version__}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
