"""Environments that break their promises."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space

from shoal.models.mlp import MLPConfig, MLPModel


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


def tell_cores(path: str) -> None:
    """Into a file named after this process."""
    (Path(path) / str(os.getpid())).write_text(",".join(map(str, sorted(os.sched_getaffinity(0)))))


class TellingConfig(MLPConfig):
    """Where to tell."""

    path: str


class TellingModel(MLPModel):
    """Does so too: a process without an environment has a network."""

    Config = TellingConfig

    def __init__(self, observation_space: Space[Any], config: TellingConfig) -> None:
        super().__init__(observation_space, config)
        tell_cores(config.path)


class Telling(Flawed):
    """Writes down the cores that its process may use."""

    def __init__(self, path: str) -> None:
        super().__init__(range(0))
        tell_cores(path)


def telling(path: str) -> Telling:
    """Tells in a file named after its process."""
    return Telling(path)


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


class Hanging(Flawed):
    """Answers for a while, then never again; asleep it needs no Python, so threads beside it go on."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._time == 300:
            threading.Event().wait()
        return super().step(action)


def hanging() -> Hanging:
    """Hangs in each of its lives."""
    return Hanging(range(0))


class RaisingOnce(Flawed):
    """Fails in its first life, of which a file tells the next."""

    def __init__(self, mark: Path) -> None:
        super().__init__(range(0))
        self._mark = mark

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._time == 50 and not self._mark.exists():
            self._mark.touch()
            raise ZeroDivisionError("after 50 steps")
        return super().step(action)


def raising_once(mark: str) -> RaisingOnce:
    """Fails once in a run."""
    return RaisingOnce(Path(mark))


class Slow(Flawed):
    """Takes its time."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(0.002)
        return super().step(action)


def slow() -> Slow:
    """Two milliseconds a step."""
    return Slow(range(0))
