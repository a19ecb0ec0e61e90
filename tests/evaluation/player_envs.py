"""Environments whose observations and actions differ from the arrays that carry them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from pettingzoo import ParallelEnv


class Shop(gymnasium.Env):
    """Nested observations in double precision, actions that count from 2, and a mask that changes with every step."""

    observation_space = Dict({"price": Box(-1.0, 1.0, (2,), np.float64), "pair": Tuple([Discrete(3), Box(0, 9, (4,))])})
    action_space = Discrete(5, start=2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._see()

    def step(self, action: int) -> Any:
        assert self.allowed[action - 2], "the mask is kept"
        self.time += 1
        seen, info = self._see()
        return seen, float(action), self.time == 40, False, info

    def _see(self) -> Any:
        draw = self.np_random
        self.allowed = draw.random(5) < 0.5
        self.allowed[draw.integers(5)] = True
        pair = int(draw.integers(3)), draw.uniform(0, 9, 4).astype(np.float32)
        return {"price": draw.uniform(-1, 1, 2), "pair": pair}, {"action_mask": self.allowed.astype(np.int8)}


class Film(ParallelEnv):
    """Two agents watch noise, each its own."""

    metadata = {"name": "film"}
    possible_agents = ["left_0", "left_1"]

    def observation_space(self, agent: str) -> Any:
        return Box(0, 255, (12, 8, 3), np.uint8)

    def action_space(self, agent: str) -> Any:
        return Box(-0.01, 0.01, (2,), np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.random, self.time, self.agents = np.random.default_rng(seed), 0, list(self.possible_agents)
        return self._see(), {}

    def step(self, actions: Any) -> Any:
        assert all(np.abs(action).max() <= np.float32(0.01) for action in actions.values()), "actions are clipped"
        self.time += 1
        over = self.time == 10
        flags = [dict.fromkeys(self.agents, value) for value in (0.0, over, False, {})]
        self.agents = [] if over else self.agents
        return self._see(), *flags

    def _see(self) -> Any:
        return {agent: self.random.integers(0, 256, (12, 8, 3), np.uint8) for agent in self.possible_agents}
