"""Shoal's side: shared PPO on spread with the settings given as JSON; prints one JSON line.

`native`: the recipe `spread` as it is, in Shoal's own environment; otherwise mpe2's object, with the work that all sides do.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from shoal import recipes
from shoal.api.experiment import Experiment, load_experiment
from shoal.runs.train import train

AGENTS = 3
WARM = 2.0
"""Seconds before the window."""


def experiment_of(settings: dict[str, Any]) -> Experiment:
    """An actor and a trainer on every core, in step: no experience is older than the newest version."""
    run = {
        "stop": {"seconds": settings["seconds"] + WARM},
        "placement": {"trainers": settings["cores"]},
        "seed": settings["seed"],
    }
    if settings["native"]:
        recipe = load_experiment(Path(recipes.__file__).parent / "spread.yaml", [])
        return Experiment.parse({**recipe.model_dump(by_alias=True), **run})
    return Experiment.parse(
        {
            "env": {"id": "mpe2/simple_spread_v3", "num_envs": settings["num_envs"], "kwargs": {"max_cycles": 25}},
            "algorithm": {
                "name": "ppo", "unroll": settings["unroll"], "minibatch": settings["minibatch"],
                "epochs": settings["epochs"], "lr": settings["lr"], "shared": False,
            },
            "model": {"name": "mlp", "hidden": [64, 64], "activation": "tanh"},
            **run,
        }
    )  # fmt: skip


def main() -> None:
    experiment = experiment_of(json.loads(sys.argv[1]))
    with tempfile.TemporaryDirectory() as root:
        outcome = train(experiment, root=root, quiet=True)
        rows = [json.loads(line) for line in (Path(outcome.folder) / "metrics.jsonl").read_text().splitlines()]
    points = [(row["time/elapsed"], AGENTS * row["step"]) for row in rows]
    print(json.dumps({"points": [point for point in points if point[0] >= WARM]}))


if __name__ == "__main__":
    main()
