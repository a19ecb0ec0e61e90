"""An environment that sleeps, one copy at a time: what a ring of Envs is there for."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import gymnasium
import numpy as np


class Sleeper(gymnasium.Env[Any, Any]):
    """Sleeps in every step, as a simulator in another process or on another machine would let its caller wait."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (64,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, seconds: float = 0.005) -> None:
        self._seconds, self._time = seconds, 0
        self._seen = np.zeros(64, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._time = 0
        return self._seen, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        self._time += 1
        return self._seen, 1.0, self._time >= 100, False, {}


class OneSleeper(Sleeper):
    """The first copy that steps makes a file `mark`, and is slow: it sleeps a second in a share of its steps, `often`."""

    def __init__(self, seconds: float = 0.005, often: float = 0.05, mark: str = "slow") -> None:
        super().__init__(seconds)
        self._often, self._mark = often, mark
        self._slow: bool | None = None

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._slow is None:
            try:
                os.close(os.open(self._mark, os.O_CREAT | os.O_EXCL))
                self._slow = True
            except FileExistsError:
                self._slow = False
        if self._slow and random.random() < self._often:
            time.sleep(1.0)
        return super().step(action)
