"""A resumed run goes on counting its steps where it was, whoever counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment

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
    assert least < first.steps <= 8 * BATCH / share
    assert least < gained <= 8 * BATCH / share
