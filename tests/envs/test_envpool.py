"""EnvPool's pools: their seeds, their ends, the stacks of their images, what they are not told, and a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.runs.train import train
from shoal.testing.check import require
from shoal.testing.env import check_env

pytest.importorskip("envpool", reason="the envpool extra is not installed")
SHORT = {"max_episode_steps": 20}


def made(task: str, copies: int, *, first_slot: int = 0, **kwargs: Any) -> Env:
    return make_env(EnvConfig(id=f"envpool/{task}", kwargs=kwargs), copies, first_slot=first_slot)


def turn(step: Step) -> Any:
    return step.turns["agent"]


def play(env: Env, steps: int, first: int = 0, seed: int = 7) -> list[Step]:
    """Actions by copy and step, whoever else is in the batch."""
    answers = [env.reset(seed)]
    for t in range(steps):
        actions = [(7 * (first + copy) + 3 * t) % 6 for copy in range(env.num_envs)]
        answers.append(env.step({"agent": np.array(actions).reshape(-1, 1)}))
    env.close()
    return answers


@pytest.mark.parametrize("task", ["Pong-v5", "HalfCheetah-v4", "CartPole-v1"])
@pytest.mark.parametrize("threads", [1, 2])
def test_it_conforms(task: str, threads: int) -> None:
    checks = check_env(lambda copies: made(task, copies, num_threads=threads, **SHORT), steps=50)
    require(checks)
    assert not any("no episode ended" in check.detail for check in checks)


def test_an_end_is_shown_and_the_next_call_only_resets() -> None:
    answers = play(made("Pong-v5", 2, **SHORT), 24)
    (at,) = [time for time, answer in enumerate(answers) if answer.episodes]
    end, idle = answers[at], answers[at + 1]
    assert at == 20
    assert turn(end).truncated.all()
    assert not turn(end).terminated.any()
    assert not turn(end).acting.any()
    np.testing.assert_array_equal(turn(end).observation[:, :, :3], turn(answers[at - 1]).observation[:, :, 1:])
    assert [episode.length for episode in end.episodes] == [20, 20]
    assert idle.advanced == 0
    assert turn(idle).acting.all()
    assert not turn(idle).reward.any()


def test_a_copy_plays_the_same_whoever_else_is_in_the_batch() -> None:
    whole, half = play(made("Pong-v5", 4, **SHORT), 50), play(made("Pong-v5", 2, first_slot=2, **SHORT), 50, first=2)
    for all_four, two in zip(whole, half, strict=True):
        np.testing.assert_array_equal(turn(all_four).observation[2:], turn(two).observation)
        np.testing.assert_array_equal(turn(all_four).reward[2:], turn(two).reward)


def test_stacks_are_promised_where_they_shift() -> None:
    assert made("Pong-v5", 1).groups["agent"].stacked == 4
    assert made("Pong-v5", 1, episodic_life=True).groups["agent"].stacked == 0
    assert made("Pong-v5", 1, gray_scale=False).groups["agent"].stacked == 0
    assert made("HalfCheetah-v4", 1).groups["agent"].stacked == 0
    older, newer = (turn(answer).observation[0, 0] for answer in play(made("Pong-v5", 1), 6)[-2:])
    np.testing.assert_array_equal(newer[:3], older[1:])
    first = turn(made("Pong-v5", 1).reset(3)).observation[0, 0]
    assert (first == first[0]).all(), "an episode begins with repetitions of one image"


def test_threads_are_counted_by_the_setting_and_end_with_the_pool() -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    before, counts = threads(), []
    for number in (1, 3):
        env = made("Pong-v5", 8, num_threads=number)
        for _ in range(2):
            env.reset(0)
            counts.append(threads())
        env.close()
        assert threads() == before
    one, again, three, still = counts
    assert (one, three) == (again, still), "the pool of a reset replaces the one before"
    assert three == one + 2


@pytest.mark.parametrize(
    ("task", "kwargs", "words"),
    [
        ("Pong-v4", {}, "is not an environment of EnvPool; did you mean 'envpool/Pong-v5'?"),
        ("Pong-v5", {"seed": 1}, "env.kwargs.seed: copies are seeded by the experiment's own seed; remove it"),
        ("Pong-v5", {"batch_size": 1}, "env.kwargs.batch_size = 1: a pool answers for all its copies at once"),
        ("Pong-v5", {"stack_nmu": 1}, "stack_nmu"),
    ],
)
def test_mistakes_are_one_line(task: str, kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        made(task, 2, **kwargs)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_it_trains(tmp_path: Path) -> None:
    experiment = Experiment.parse(
        {
            "env": {"id": "envpool/CartPole-v1", "num_envs": 8, "kwargs": {"num_threads": 2}},
            "algorithm": {"name": "ppo", "unroll": 32, "minibatch": 128, "epochs": 2},
            "stop": {"steps": 2_000},
        }
    )
    outcome = train(experiment, root=tmp_path, on="inline", quiet=True)
    assert outcome.steps >= 2_000
