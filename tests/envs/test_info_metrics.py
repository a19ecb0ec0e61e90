"""Numbers of `info` over an episode: the declared reduction of what every step held, in every adapter."""

from __future__ import annotations

import statistics
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from zoo_worlds import Beat, InTurn, Together

from shoal.api.env import Env, Episode, Reduction
from shoal.base.errors import ShoalError
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.envs.gymnasium_vector import GymnasiumVector
from shoal.envs.info_metrics import InfoMetrics
from shoal.envs.pettingzoo_loop import PettingZooLoop

WATCHED: dict[str, Reduction] = {"x": "max", "paid": "sum", "speed": "mean", "left": "last", "never": "sum"}
SLOW = {"max": max, "sum": sum, "mean": statistics.fmean, "last": lambda values: values[-1]}


class Walker(gymnasium.Env):
    """Tells numbers of its own, some plainly, some under `metrics`, some not at every step."""

    observation_space, action_space = Box(-1, 1, (1,), np.float32), Discrete(2)

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.told = lengths, []  # type: ignore[var-annotated]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.left = self.lengths[len(self.told) % len(self.lengths)]
        self.told.append([])
        return np.zeros(1, np.float32), {"x": 1000.0}  # of no step

    def step(self, action: Any) -> Any:
        self.left -= 1
        number = float(10 * len(self.told) + self.left)
        info = {"x": -number, "paid": np.float32(number), "metrics": {"left": self.left}}
        if self.left % 2:
            info["speed"] = number
        self.told[-1].append(info)
        return np.zeros(1, np.float32), 1.0, self.left == 0, False, info

    def expected(self, episode: int) -> dict[str, float]:
        steps = [{**info, **info["metrics"]} for info in self.told[episode]]
        values = {name: [float(step[name]) for step in steps if name in step] for name in WATCHED}
        return {name: SLOW[how](values[name]) for name, how in WATCHED.items() if values[name]}


def episodes(env: Env, steps: int, watched: dict[str, Reduction] = WATCHED) -> list[Episode]:
    env.watched = watched
    env.reset(1)
    action = {"agent": np.zeros((env.num_envs, 1), np.int64)}
    return [episode for _ in range(steps) for episode in env.step(action).episodes]


def make(kind: str, walkers: list[Walker]) -> Env:
    if kind == "loop":
        return GymnasiumLoop(list(walkers), "walk")
    mode = AutoresetMode.SAME_STEP if kind == "same step" else AutoresetMode.NEXT_STEP
    return GymnasiumVector(SyncVectorEnv([lambda w=walker: w for walker in walkers], autoreset_mode=mode), "walk")  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["loop", "same step", "next step"])
def test_every_step_of_an_episode_counts_and_no_other(kind: str) -> None:
    walkers = [Walker([3, 5]), Walker([4, 1])]
    found = episodes(make(kind, walkers), 14)
    assert len(found) > 5
    for row, walker in enumerate(walkers):
        for number, episode in enumerate(episode for episode in found if episode.row == row):
            assert episode.metrics == pytest.approx(walker.expected(number))
            assert "never" not in episode.metrics


@pytest.mark.parametrize("kind", ["loop", "same step", "next step"])
def test_what_is_not_declared_is_as_before(kind: str) -> None:
    walkers = [Walker([3]), Walker([2])]
    assert {tuple(episode.metrics.items()) for episode in episodes(make(kind, walkers), 6, {})} == {(("left", 0.0),)}


def test_without_declaration_nobody_looks() -> None:
    env = make("loop", [Walker([3])])
    env.reset(1)
    assert env._read_info == env._read_mask  # type: ignore[attr-defined]
    env.watched = WATCHED
    env.reset(1)
    assert env._read_info != env._read_mask  # type: ignore[attr-defined]


class Boasting(Walker):
    """Tells words."""

    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], {"x": "far"})


@pytest.mark.parametrize("kind", ["loop", "next step"])
def test_what_is_no_number_is_an_error(kind: str) -> None:
    with pytest.raises(
        ShoalError, match=r"^walk, cop.*evaluation.metrics.x: info\['x'\] is .*'far'.*, and not a number"
    ):
        episodes(make(kind, [Boasting([3])]), 1)


@pytest.mark.parametrize("form", [Together, InTurn])
def test_agents_are_reduced_one_by_one_and_averaged(form: Any) -> None:
    """p_0 tells 1, 2 and 6, p_1 tells 5 and leaves: sums of 9 and 5."""
    script = [
        Beat(who="p_0", metrics={"p_0": {"paid": 1}, "p_1": {"paid": 5}}, terminated=("p_1",)),
        Beat(who="p_0", metrics={"p_0": {"paid": 2}}),
        Beat(who="p_0", metrics={"p_0": {"paid": 6}}, terminated=("p_0",)),
    ]
    env = PettingZooLoop([form(script, ["p_0", "p_1"])], "play")
    env.watched = {"paid": "sum"}
    env.reset(1)
    actions = {name: np.zeros((1, len(group.agents)), np.int64) for name, group in env.groups.items()}
    found: list[Episode] = []
    while not found:
        found = env.step(actions).episodes
    assert found[0].metrics == {"paid": 7.0}


def test_reductions_begin_anew() -> None:
    numbers = InfoMetrics({"a": "max", "b": "mean"})
    numbers.take(0, {"a": -3, "b": 1})
    numbers.take(0, {"a": -5, "b": 4})
    numbers.take(1, {"a": 7})
    assert numbers.close(0) == {"a": -3.0, "b": 2.5}
    assert numbers.close(0) == {}
    assert numbers.close(1) == {"a": 7.0}
