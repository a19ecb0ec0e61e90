"""Stages of a curriculum: when they begin, what they change, and that they outlive checkpoints and actors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.base.faults import VARIABLE
from shoal.envs.curriculum import StagedEnv, env_at
from tests.launchers.test_exact_resume import check_equal_weights, numbers

PLENTY = 3_000_000
"""Steps: with processes of their own, how many go by until a stage is judged hangs on how busy the machine is."""
STAGES = [{"kwargs": {"start": 9}}, {"kwargs": {"start": 5}, "at": 0.9}, {"kwargs": {"start": 0}, "at": 0.9}]
SEA = {
    "env": {"id": "shoal/deep-sea", "num_envs": 32, "kwargs": {"depth": 12}},
    "algorithm": {"name": "ppo", "lr": 3e-3, "unroll": 16, "minibatch": 128, "epochs": 4, "entropy": 0.01},
    "model": {"name": "mlp", "hidden": [32]},
    "evaluation": {"every": "3 updates", "episodes": 8},
    "log": {"tensorboard": False},
    "name": "sea",
}


def sea(stages: list[dict[str, Any]], **stop: Any) -> Experiment:
    return Experiment.parse({**SEA, "curriculum": stages, "stop": {"episodes": 16, **stop}})


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == kind]


@pytest.mark.parametrize("on", ["inline", "local"])
def test_stage_by_stage_the_treasure_is_found(tmp_path: Path, on: str) -> None:
    outcome = shoal.train(sea(STAGES, steps=PLENTY, **{"return": 0.98}), root=tmp_path, on=on, quiet=True)
    assert "stop.return = 0.98 reached" in outcome.reason
    assert [event["stage"] for event in events(outcome.folder, "stage")] == [1, 2]
    judged = events(outcome.folder, "evaluation")
    stages = [event["stage"] for event in judged]
    assert stages == sorted(stages), "a version is judged in the stage that it was saved in"
    assert all(event["length"] == 12 - [9, 5, 0][event["stage"]] for event in judged)
    assert [row["rollout/stage"] for row in numbers(outcome.folder)][-1] == 2
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=4, checkpoint="best")
    assert scores.mean == pytest.approx(0.99)
    assert set(scores.lengths) == {12}


@pytest.mark.slow
def test_from_the_top_alone_it_is_not_found(tmp_path: Path) -> None:
    outcome = shoal.train(
        sea([STAGES[-1] | {"at": None}], steps=60_000, **{"return": 0.98}), root=tmp_path, on="inline", quiet=True
    )
    assert "stop.steps" in outcome.reason
    assert max(event["mean_reward"] for event in events(outcome.folder, "evaluation")) <= 0.0


def test_the_goal_counts_in_the_last_stage_only(tmp_path: Path) -> None:
    """Any score is above this goal, and below what the next stage needs."""
    stages = [STAGES[0], STAGES[1] | {"at": 2.0}]
    outcome = shoal.train(sea(stages, updates=9, **{"return": -1.0}), root=tmp_path, on="inline", quiet=True)
    assert outcome.reason == "stop.updates = 9 reached"


def test_a_resumed_run_is_in_the_stage_it_was_in(tmp_path: Path) -> None:
    shoal.train(sea(STAGES, updates=60), root=tmp_path, trial="whole", on="inline", quiet=True)
    shoal.train(sea(STAGES, updates=40), root=tmp_path, trial="cut", on="inline", quiet=True)
    assert events(tmp_path / "sea" / "cut", "stage"), "a later stage was reached before the cut"
    shoal.resume("sea", "cut", overrides=["stop.updates=60"], root=tmp_path, on="inline", quiet=True)
    check_equal_weights(tmp_path / "sea" / "whole", tmp_path / "sea" / "cut")
    stages = [row["rollout/stage"] for row in numbers(tmp_path / "sea" / "cut")]
    assert stages == sorted(stages)


def test_a_restarted_actor_is_in_the_stage_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "actor-0@step=3000:kill")
    placed = sea(STAGES, steps=PLENTY, **{"return": 0.98})
    placed = placed.model_copy(
        update={"placement": placed.placement.model_copy(update={"actors": 1, "together": False})}
    )
    outcome = shoal.train(placed, root=tmp_path, on="local", quiet=True)
    assert "stop.return = 0.98 reached" in outcome.reason
    assert [event["stage"] for event in events(outcome.folder, "stage")] == [1, 2]
    assert any("actor-0 was started again" in event["text"] for event in events(outcome.folder, "note"))


class Steps(gymnasium.Env[np.ndarray, int]):
    """Episodes of as many steps as the stage says, one more than its number."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, width: int = 1) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (width,))
        self._stage = self._left = 0

    def set_stage(self, number: int) -> None:
        self._stage = number

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._left = self._stage + 1
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return np.zeros(self.observation_space.shape, np.float32), 1.0, self._left == 0, False, {}


def steps(stages: list[dict[str, Any]], **env: Any) -> Experiment:
    sections = {
        **SEA,
        "env": {"id": f"{__name__}:Steps", "num_envs": 8, **env},
        "algorithm": {"name": "a2c", "unroll": 4},
    }
    return Experiment.parse({**sections, "curriculum": stages, "stop": {"updates": 12}})


def test_worlds_with_set_stage_are_told(tmp_path: Path) -> None:
    outcome = shoal.train(steps([{}, {"at": 1.0}, {"at": 2.0}]), root=tmp_path, on="inline", quiet=True)
    judged = events(outcome.folder, "evaluation")
    assert {(event["stage"], event["length"]) for event in judged} == {(0, 1.0), (1, 2.0), (2, 3.0)}
    assert numbers(outcome.folder)[-1]["rollout/ep_len_mean"] > 1.5


def test_settings_of_a_stage_lie_over_those_of_the_world() -> None:
    staged = sea(STAGES)
    assert env_at(staged, 1).kwargs == {"depth": 12, "start": 5}
    env = StagedEnv(staged, 2)
    lengths = []
    for stage in (2, 0, 1):
        env.enter(stage)
        env.reset(1)
        for count in range(1, 20):
            if env.step({"agent": np.zeros((2, 1), np.int64)}).episodes:
                lengths.append(count)
                break
    env.close()
    assert lengths == [12, 3, 7]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"evaluation": None}, "^curriculum: evaluations decide when a stage begins; add evaluation"),
        ({"curriculum": [{"at": 1.0}]}, "the first stage begins with the run; remove its `at`"),
        (
            {"curriculum": [{}, {"kwargs": {"start": 1}}]},
            "stage 1 never begins; give the score of the one before as `at`",
        ),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Experiment.parse({**SEA, "curriculum": STAGES, **changes})


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        (sea([STAGES[0], STAGES[0] | {"at": 1.0}]), "stage 1 changes nothing: give it other kwargs"),
        (steps([{}, {"at": 1.0, "kwargs": {"width": 2}}]), "stage 1 has other agents or spaces"),
    ],
)
def test_stages_that_cannot_be_are_named_before_anything_starts(
    tmp_path: Path, experiment: Experiment, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        shoal.train(experiment, root=tmp_path, on="inline", quiet=True)
    assert not list(tmp_path.iterdir())
