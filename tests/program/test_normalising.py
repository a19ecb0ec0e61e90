"""`env.wrappers: [normalise]` is the setting of the algorithms, once; `reward_scale` changes what is learned from, and no score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.program.expand import check_settings, expand
from shoal.runs.load import load
from shoal.runs.train import train
from tests.launchers.small_runs import PPO, trained

WRAPPED = {"id": "Pendulum-v1", "wrappers": ["normalise"]}


def parsed(**sections: Any) -> Experiment:
    return Experiment.parse({"env": WRAPPED, **sections})


def test_the_wrapper_is_the_setting() -> None:
    program = expand(parsed())
    assert program.experiment.algorithm.rest["normalise_observations"] is True
    again = expand(program.experiment)
    assert again.experiment == program.experiment, "a run that is resumed has both, and means one"
    both = expand(parsed(algorithm={"name": "ppo", "normalise_observations": True}))
    assert both.experiment.algorithm == program.experiment.algorithm


def test_policies_with_settings_of_their_own_have_it_too() -> None:
    policies = {"left": {"algorithm": {"name": "a2c"}}, "right": {}}
    env = {"id": "shoal/multi-cartpole", "wrappers": ["normalise"]}
    program = expand(Experiment.parse({"env": env, "agents": {"pole_0": "left", "*": "right"}, "policies": policies}))
    settings = [spec.algorithm.rest["normalise_observations"] for spec in program.policies.values() if spec.algorithm]
    assert settings == [True, True]


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        ({"name": "sac"}, ["env.wrappers = 'normalise'", "algorithm.name = 'sac'", "choose from: ", "ppo"]),
        (
            {"name": "ppo", "normalise_observations": False},
            ["algorithm.normalise_observations = false", "env.wrappers", "remove one"],
        ),
    ],
)
def test_what_cannot_be_is_refused(algorithm: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        expand(parsed(algorithm=algorithm))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_wrong_name_is_found_before_anything_is_opened() -> None:
    with pytest.raises(InputError, match="did you mean 'sticky'"):
        check_settings(Experiment.parse({"env": {"id": "no_such_module:Env", "wrappers": [{"stiky": 0.1}]}}))


def test_a_player_normalises_what_it_is_given(tmp_path: Path) -> None:
    run = trained(tmp_path, WRAPPED)
    policy = load(run).policy()
    assert policy.module.normaliser.moments[0].count > 0, "the trainer has updated it"
    policy.player().act(np.zeros(3, np.float32))


def returns(root: Path, scale: float | None) -> tuple[list[float], list[float]]:
    """Mean returns as they are reported, and the losses of the values."""
    wrappers = [] if scale is None else [{"reward_scale": scale}]
    experiment = Experiment.parse(
        {
            "env": {"id": "CartPole-v1", "num_envs": 4, "wrappers": wrappers},
            "algorithm": {**PPO, "lr": 1e-9},
            "stop": {"updates": 12},
            "name": f"scaled-{scale}",
        }
    )
    folder = train(experiment, root=root, on="inline", quiet=True).folder
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    name = "rollout/ep_rew_mean"
    return [row[name] for row in rows if name in row], [row["train/value_loss"] for row in rows]


def test_scores_stay_the_environments_own(tmp_path: Path) -> None:
    """Hardly anything is learned, so that the same episodes are played."""
    plain, loss = returns(tmp_path, None)
    scaled, small = returns(tmp_path, 0.01)
    assert plain
    assert plain == scaled
    assert max(small) < 0.1 * min(loss)
