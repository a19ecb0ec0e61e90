"""Atari games through ale-py's batch of emulators: its images, its ends, its seeds, and the scores that stay raw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig, Experiment
from shoal.envs import make_env
from shoal.envs.atari import AtariVector
from shoal.runs.train import train
from shoal.testing.env import check_env

pytest.importorskip("ale_py", reason="the atari extra is not installed")
SHORT = {"max_num_frames_per_episode": 160}
"""Forty decisions."""


def pong(copies: int, *, first_slot: int = 0, **kwargs: Any) -> Env:
    return make_env(EnvConfig(id="ALE/Pong-v5", kwargs=kwargs), copies, first_slot=first_slot)


def turn(step: Step) -> Any:
    return step.turns["agent"]


def play(env: Env, steps: int, seed: int = 7) -> list[Step]:
    """Actions by copy and step, whoever else is in the batch."""
    first = env._first_slot  # type: ignore[attr-defined]
    answers = [env.reset(seed)]
    for t in range(steps):
        actions = [(7 * (first + copy) + 3 * t) % 6 for copy in range(env.num_envs)]
        env.send({"agent": np.array(actions).reshape(-1, 1)})
        answers.append(env.recv(60))
    env.close()
    return answers


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_it_conforms(mode: str) -> None:
    checks = check_env(lambda copies: pong(copies, autoreset_mode=mode, **SHORT), steps=100)
    assert [check for check in checks if not check.passed] == []
    assert not any("no episode ended" in check.detail for check in checks)


def test_four_grey_pictures_of_84_by_84() -> None:
    env = pong(2)
    assert isinstance(env, AtariVector)
    space = env.groups["agent"].observation_space
    assert (space.shape, space.dtype) == ((4, 84, 84), np.uint8)
    answers = play(env, 6)
    older, newer = (turn(answer).observation[0, 0] for answer in answers[-2:])
    np.testing.assert_array_equal(newer[:3], older[1:])
    assert (newer[3] != older[3]).any()


def test_a_copy_plays_the_same_whoever_else_is_in_the_batch() -> None:
    whole, half = play(pong(4, **SHORT), 90), play(pong(2, first_slot=2, **SHORT), 90)
    assert sum(len(answer.episodes) for answer in half) >= 4
    for all_four, two in zip(whole, half, strict=True):
        np.testing.assert_array_equal(turn(all_four).observation[2:], turn(two).observation)
        np.testing.assert_array_equal(turn(all_four).reward[2:], turn(two).reward)


def test_an_episode_that_is_cut_shows_what_it_saw_last() -> None:
    answers = play(pong(1, **SHORT), 45)
    at, cut = next((i, answer) for i, answer in enumerate(answers) if answer.episodes)
    assert turn(cut).truncated[0, 0]
    assert not turn(cut).terminated[0, 0]
    final = turn(cut).final_observation[0, 0]
    np.testing.assert_array_equal(final[:3], turn(answers[at - 1]).observation[0, 0, 1:])
    assert (turn(cut).observation[0, 0] != final).any()


def test_the_newest_picture_is_drawn() -> None:
    env = pong(2)
    env.reset(1)
    assert env.render(0) is not None, "there is a first one"
    env.send({"agent": np.zeros((2, 1), np.int64)})
    step = env.recv(60)
    picture = env.render(1)
    assert picture is not None
    assert picture.shape == (84, 84, 3)
    np.testing.assert_array_equal(picture[..., 0], turn(step).observation[1, 0, -1])
    env.close()
    coloured = pong(1, grayscale=False)
    play(coloured, 1)
    picture = coloured.render(0)
    assert picture is not None
    assert picture.shape == (84, 84, 3)


def test_pictures_train_and_scores_are_raw(tmp_path: Path) -> None:
    """Ms. Pac-Man's pills are 10 points each."""
    experiment = Experiment.parse(
        {
            "env": {
                "id": "ALE/MsPacman-v5",
                "num_envs": 2,
                "clip_reward": 1,
                "kwargs": {"max_num_frames_per_episode": 1200},
            },
            "algorithm": {"name": "ppo", "unroll": 64, "minibatch": 128, "epochs": 1},
            "model": {"name": "nature", "hidden": [16]},
            "stop": {"steps": 640},
        }
    )
    outcome = train(experiment, root=tmp_path, on="inline", quiet=True)
    rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["rollout/ep_rew_mean"] > 50
