"""Small environments for what a rollout must write down: nested observations, numbers in `info`, groups that end apart."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from tests.envs.zoo_worlds import Beat, Together

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


class Farewell(Together):
    """Two groups of one: `early_0` ends in the second step, `late_0` is cut off in the fourth."""

    def observation_space(self, agent: str) -> Any:
        return Box(0, 100 + self.possible_agents.index(agent), (1,))


def make_farewell() -> Farewell:
    """See there."""
    beats = [Beat(), Beat(terminated=("early_0",), rewards={"early_0": 3}), Beat(), Beat(truncated=("late_0",))]
    return Farewell(beats, ["early_0", "late_0"])
