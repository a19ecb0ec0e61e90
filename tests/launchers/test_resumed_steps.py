"""A resumed run goes on counting its steps where it was, whoever counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.checkpoints.store import CheckpointStore

BATCH = 8 * 16


def experiment(**placement: Any) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": "CartPole-v1", "num_envs": 8},
            "algorithm": {"name": "a2c", "unroll": 16},
            "model": {"name": "mlp", "hidden": [16]},
            "stop": {"updates": 6},
            "placement": placement,
            "name": "base",
        }
    )


@pytest.mark.parametrize(
    ("on", "placement"),
    [
        ("inline", {}),
        ("inline", {"trainers": 2, "agree": "allreduce"}),
        ("inline", {"trainers": 2, "agree": "hogwild"}),
        ("local", {"actors": 1}),
        ("local", {"trainers": 2, "agree": "hogwild"}),
    ],
)
def test_steps_of_a_resumed_run(tmp_path: Path, on: str, placement: dict[str, Any]) -> None:
    first = shoal.train(experiment(**placement), root=tmp_path, trial="a", on=on, quiet=True)
    again = shoal.resume("base", "a", overrides=["stop.updates=12"], root=tmp_path, on=on, quiet=True)
    share = 2 if placement.get("agree") == "hogwild" else 1  # an update of one replica is one of its share
    gained = again.steps - first.steps
    # copies idle for a call when their episode ends; of replicas at their own pace the last updates may not be heard in time
    least = 0 if share > 1 else 3 * BATCH
    assert least < first.steps <= (first.version + 2) * BATCH / share
    assert least < gained <= (again.version - first.version + 2) * BATCH / share
    if share == 1:
        assert (first.version, again.version) == (6, 12)


@pytest.mark.parametrize("agree", ["allreduce", "hogwild", "average"])
@pytest.mark.parametrize("on", ["inline", "local"])
def test_a_resumed_run_goes_on_with_what_it_had_learned(tmp_path: Path, on: str, agree: str) -> None:
    tree = experiment(trainers=2, agree=agree)
    first = shoal.train(tree, root=tmp_path, trial="a", on=on, quiet=True)
    before = CheckpointStore(first.folder / "checkpoints").latest().tensors
    words = ["stop.updates=16", "algorithm.lr=1e-12"]
    again = shoal.resume("base", "a", overrides=words, root=tmp_path, on=on, quiet=True)
    assert again.version >= 16
    rows = [json.loads(line)["update"] for line in (again.folder / "metrics.jsonl").read_text().splitlines()]
    assert rows == sorted(set(rows))
    assert rows[-1] >= 16
    after = CheckpointStore(again.folder / "checkpoints").latest().tensors
    weights = [name for name in before if "/policy." in name and before[name].ndim == 2]
    assert weights
    for name in weights:
        assert torch.allclose(before[name], after[name], atol=1e-6), name
