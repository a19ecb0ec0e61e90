"""Environments that are slow, hang or die: the first copy that steps makes a file `mark`, and is the one."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Odd(gymnasium.Env):
    """Observes how many steps it took, and earns as many. `how` the odd one is: asleep for `seconds` in its `at`th step and in
    every `each`th after that, or dead. `every_start`: so is whoever is started later."""

    observation_space = Box(0.0, 1e6, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(
        self, mark: str, how: str = "sleeps", seconds: float = 1.0, at: int = 1, each: int = 1, length: int = 10**6,
        every_start: bool = False,
    ) -> None:  # fmt: skip
        self._how, self._seconds, self._at, self._each, self._length = how, seconds, at, each, length
        self._mark, self._every_start = mark, every_start
        self._odd: bool | None = None

    def _is_odd(self) -> bool:
        if self._odd is None:
            try:
                os.close(os.open(self._mark, os.O_CREAT | os.O_EXCL))
                self._odd = True
            except FileExistsError:
                self._odd = self._every_start
        return self._odd

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self._time += 1
        if self._is_odd() and self._time >= self._at and (self._time - self._at) % self._each == 0:
            if self._how == "dies":
                os._exit(3)
            if self._how == "raises":
                raise ZeroDivisionError("its own fault")
            time.sleep(self._seconds)
        seen = np.full(1, self._time, np.float32)
        return seen, float(self._time), self._time >= self._length, False, {}


class Resting(Odd):
    """Sleeps five milliseconds in every step."""

    def __init__(self) -> None:
        super().__init__("", every_start=False)

    def step(self, action: Any) -> Any:
        time.sleep(0.005)
        self._time += 1
        return np.full(1, self._time, np.float32), 1.0, self._time >= 50, False, {}
