"""Every observation space and every action space through the whole pipeline: sampled, stored, trained on, saved, evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.api.experiment import Experiment
from tests.launchers.any_space import ACTIONS, OBSERVATIONS


def run(tmp_path: Path, model: str, **kwargs: object) -> None:
    experiment = Experiment.parse(
        {
            "env": {"id": "tests.launchers.any_space:AnySpace", "num_envs": 3, "kwargs": kwargs},
            "algorithm": {"unroll": 8, "minibatch": 8, "epochs": 1, "normalise_observations": True},
            "model": model,
            "stop": {"updates": 2},
            "name": "any",
        }
    )
    outcome = shoal.train(experiment, root=tmp_path, on="inline", quiet=True)
    assert outcome.version == 2
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=4, root=tmp_path)
    assert all(5 <= value <= 7 for value in scores.returns)


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("model", ["auto", "lstm"])
def test_observations(tmp_path: Path, observation: str, model: str) -> None:
    run(tmp_path, model, observation=observation, action="discrete")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("model", ["auto", "gru"])
def test_actions(tmp_path: Path, action: str, model: str) -> None:
    run(tmp_path, model, observation="vector", action=action)


@pytest.mark.parametrize("action", ["discrete", "multi_discrete"])
def test_masks_are_obeyed(tmp_path: Path, action: str) -> None:
    run(tmp_path, "auto", observation="vector", action=action, masked=True)
