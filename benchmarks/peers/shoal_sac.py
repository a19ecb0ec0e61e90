"""Shoal's side: SAC on HalfCheetah-v5 with the settings given as JSON, for some seconds; prints one JSON line.

`shape`, `threads` and `single` are those of `shoal_dqn.py`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from shoal_dqn import placement_of, round_of, trained

from shoal.api.experiment import Experiment


def experiment_of(settings: dict[str, Any]) -> Experiment:
    """The work that all sides do."""
    taken = {name: settings[name] for name in ("batch", "capacity", "warmup", "lr")}
    unroll, updates = round_of(settings)
    return Experiment.parse(
        {
            "env": {"id": "HalfCheetah-v5", "num_envs": settings["num_envs"]},
            "algorithm": {"name": "sac", "unroll": unroll, "updates": updates, **taken},
            "model": {"name": "mlp", "hidden": [256, 256], "activation": "relu"},
            "placement": placement_of(settings),
            "stop": {"seconds": settings["seconds"]},
            "seed": settings["seed"],
        }
    )


def main() -> None:
    settings = json.loads(sys.argv[1])
    print(json.dumps(trained(experiment_of(settings), settings)))


if __name__ == "__main__":
    main()
