"""Runs of one update, to play with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.api.experiment import Experiment
from shoal.runs.train import train

SMALL = {"name": "mlp", "hidden": [8]}
PPO = {"name": "ppo", "unroll": 8, "minibatch": 32}


def trained(root: Path, env: dict[str, Any], algorithm: dict[str, Any] = PPO, model: Any = SMALL, **rest: Any) -> str:
    """A run of one update."""
    experiment = Experiment.parse(
        {
            "env": {"num_envs": 4, **env},
            "algorithm": algorithm,
            "model": model,
            "stop": {"updates": 1},
            "name": "x",
            **rest,
        }
    )
    return str(train(experiment, root=root, on="inline", quiet=True).folder)
