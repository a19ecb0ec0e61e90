"""Worlds that break their promises."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Flawed(gymnasium.Env[np.ndarray, int]):
    """Pays NaN at the steps it is told to."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, bad: range) -> None:
        self._bad, self._time = bad, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._time += 1
        reward = float("nan") if self._time in self._bad else 1.0
        return np.zeros(2, np.float32), reward, self._time % 10 == 0, False, {}


def nan_reward() -> Flawed:
    """NaN from the start."""
    return Flawed(range(1, 10**9, 7))


def nan_once() -> Flawed:
    """NaN in the second fragment only."""
    return Flawed(range(40, 41))


class Raising(Flawed):
    """Fails after a while."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._time == 50:
            raise ZeroDivisionError("after 50 steps")
        return super().step(action)


def raising() -> Raising:
    """Fails in the second fragment."""
    return Raising(range(0))


def picky(num_envs: int) -> Any:
    """Refuses to be more than one: the expansion of an experiment asks for one copy, actors ask for more."""
    from shoal.api.experiment import EnvConfig
    from shoal.base.errors import InputError
    from shoal.envs import make_env

    if num_envs != 1:
        raise InputError("this world never needs two copies")
    return make_env(EnvConfig(id="CartPole-v1"), 1)
