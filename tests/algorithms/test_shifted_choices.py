"""Learners from replay where choices count from some other number than 0: rows that nobody decided on must do no harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment

LEARNERS: dict[str, dict[str, Any]] = {
    "dqn": {"name": "dqn"},
    "dqn with novelty": {"name": "dqn", "novelty": {"arms": 2}},
    "qmix": {"name": "qmix"},
    "sac": {"name": "sac"},
}


@pytest.mark.parametrize("start", [-7, 1, 5])
@pytest.mark.parametrize("learner", LEARNERS)
def test_choices_that_do_not_count_from_zero(tmp_path: Path, learner: str, start: int) -> None:
    experiment = Experiment.parse(
        {
            "env": {
                "id": "tests.algorithms.shifted_choices:ShiftedChoices",
                "num_envs": 4,
                "kwargs": {"start": start},
            },
            "algorithm": {**LEARNERS[learner], "unroll": 4, "batch": 32, "updates": 2, "warmup": 32},
            "model": {"name": "mlp", "hidden": [8]},
            "stop": {"steps": 400},
            "name": "shifted",
        }
    )
    outcome = shoal.train(experiment, root=tmp_path, on="inline", quiet=True)
    rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    assert max(row.get("train/updates_per_row", 0.0) for row in rows) > 0.0  # so that something was evaluated
    assert shoal.evaluate(str(outcome.folder), episodes=4, root=tmp_path)[0].returns
