"""A small game by its image: a ball falls, and a bar at the bottom is moved under it."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome
from shoal.envs.registry import AGENT

CELLS, PIXELS = 9, 4


class Catch(NativeEnv):
    """uint8 `[36, 36, 1]`; left, stay, right. A reward of 1 for a ball that is caught, -1 for one that is not: the best is 1."""

    def __init__(self, num_envs: int, *, first_slot: int = 0) -> None:
        space = Box(0, 255, (CELLS * PIXELS, CELLS * PIXELS, 1), np.uint8)
        super().__init__({AGENT: AgentGroup((AGENT,), space, Discrete(3))}, num_envs, first_slot, "same")
        for name in ("ball", "bar"):
            self.arrays[name] = np.zeros(num_envs, np.int64)

    def begin(self, rows: Array) -> None:
        self.arrays["ball"][rows] = self.random(rows).integers(CELLS)
        self.arrays["bar"][rows] = CELLS // 2

    def advance(self, actions: ByGroup) -> Outcome:
        bar = self.arrays["bar"]
        bar[:] = np.clip(bar + actions[AGENT][:, 0] - 1, 0, CELLS - 1)
        over = self.time >= CELLS - 1
        reward = over * np.where(np.abs(self.arrays["ball"] - bar) <= 1, 1.0, -1.0)
        return self.ended_together(self.for_all(reward), terminated=over)

    def observe(self) -> ByGroup:
        cells = np.zeros((self.num_envs, CELLS, CELLS), np.uint8)
        rows = np.arange(self.num_envs)
        for shift in (-1, 0, 1):
            cells[rows, -1, np.clip(self.arrays["bar"] + shift, 0, CELLS - 1)] = 128
        cells[rows, np.minimum(self.time, CELLS - 1), self.arrays["ball"]] = 255
        image = cells.repeat(PIXELS, 1).repeat(PIXELS, 2)
        return {AGENT: image[:, None, :, :, None]}
