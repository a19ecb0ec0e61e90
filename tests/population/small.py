"""Populations of runs that take a moment each, and what is compared of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shoal.checkpoints.store import CheckpointStore
from shoal.population.folder import PopulationFolder
from shoal.population.population import Ended
from shoal.population.start import Options, sweep

TIMES = ("time/", "rows/")


def values(**rest: Any) -> dict[str, Any]:
    """An experiment of a few updates."""
    return {
        "env": {"id": "CartPole-v1", "num_envs": 4},
        "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32},
        "model": {"name": "mlp", "hidden": [8]},
        "stop": {"steps": 512},
        "log": {"tensorboard": False},
        **rest,
    }


def swept(root: Path, name: str = "small", *, resume: bool = False, parallel: int = 2, **rest: Any) -> Ended:
    """A sweep of them."""
    return sweep(values(**rest), [], Options(name, root=root, parallel=parallel, resume=resume, quiet=True))


def learned(folder: Path) -> dict[str, dict[str, bytes]]:
    """Member -> tensors of its newest checkpoint, as bytes."""
    found = {}
    for member in PopulationFolder(folder).members():
        tensors = CheckpointStore(member.checkpoints).latest().tensors
        found[member.trial] = {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
    return found


def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Member -> its rows, but for times."""
    found = {}
    for member in PopulationFolder(folder).members():
        lines = [json.loads(line) for line in member.metrics.read_text().splitlines()]
        found[member.trial] = [{key: row[key] for key in row if not key.startswith(TIMES)} for row in lines]
    return found
