"""Rows that are too old for a run that is not exact: those are dropped, and not the fragment in which they lie."""

from __future__ import annotations

import json
from pathlib import Path

import shoal
from shoal.api.experiment import Experiment

KUHN = {
    "env": {"id": "shoal/kuhn", "num_envs": 16}, "model": {"name": "mlp", "hidden": [8]}, "name": "stale",
    "algorithm": {"name": "ppo", "unroll": 8, "epochs": 1, "minibatch": 64}, "log": {"tensorboard": False},
    "placement": {"max_lag": 0, "exact": False}, "stop": {"updates": 20},
}  # fmt: skip


def test_short_games_at_lag_0_lose_what_a_round_left_open_and_no_more(tmp_path: Path) -> None:
    """In Kuhn poker nearly every fragment begins with the bet of somebody whom the other had not answered yet."""
    folder = shoal.train(Experiment.parse(KUHN), root=tmp_path, on="inline", quiet=True).folder
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert 0 < last["rows/stale"] <= 0.15 * last["rows/produced"]
    assert last["rows/trained"] + last["rows/stale"] + last["rows/in_flight"] == last["rows/produced"]
    assert last["train/lag"] == 0
