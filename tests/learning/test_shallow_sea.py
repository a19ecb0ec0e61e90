"""A sea eight rows deep: chance finds the treasure in one episode of 256, novelty goes and looks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.api.experiment import Experiment

SETTINGS = {
    "name": "dqn", "lr": 2e-3, "unroll": 8, "n_step": 3, "batch": 128, "updates": 8, "warmup": 500, "capacity": 200_000,
    "tau": 0.05, "epsilon": {"base": 0.3, "alpha": 4.0},
    "novelty": {"arms": 4, "weight": 0.1, "embedding": "observation", "controller": {"chance": 0.5}},
}  # fmt: skip


@pytest.mark.slow
def test_novelty_finds_the_treasure_of_a_shallow_sea(tmp_path: Path) -> None:
    tree = {
        "env": {"id": "shoal/deep-sea", "num_envs": 16, "kwargs": {"depth": 8}},
        "algorithm": SETTINGS,
        "model": {"name": "mlp", "hidden": [64], "activation": "relu"},
        "stop": {"steps": 16_000},
        "name": "shallow",
    }
    outcome = shoal.train(Experiment.parse(tree), root=tmp_path, on="inline", quiet=True)
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=20, seed=1001, root=tmp_path)
    assert scores.mean >= 0.98
