"""A small world with nested observations and numbers of its own in `info`: what a rollout must write down."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

SPACE = Dict({"place": Box(-9, 9, (2,)), "pair": Tuple([Discrete(4), Box(0, 255, (3,), np.uint8)])})


class Notebook(gymnasium.Env):
    """Ends by its rules after `length` steps, or is cut off after as many if `cut`."""

    observation_space, action_space = SPACE, Discrete(2)

    def __init__(self, length: int = 3, cut: bool = False) -> None:
        self.length, self.cut, self.time = length, cut, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        over = self.time == self.length
        info = {"metrics": {"steps_twice": 2 * self.time}} if over else {}
        return self._see(), 0.5 + action, over and not self.cut, over and self.cut, info

    def _see(self) -> Any:
        place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"place": place, "pair": (self.time % 4, np.full(3, self.time, np.uint8))}
