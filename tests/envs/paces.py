"""Environments whose agents act at different paces."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome


class UnequalPoles(NativeEnv):
    """Two agents; the first is dead two thirds of each episode's time, which is drawn anew for each episode and copy."""

    def __init__(self, num_envs: int, *, first_slot: int = 0, length: int = 12) -> None:
        space, names = Box(-1, 1, (2,), np.float32), ("pole_0", "pole_1")
        super().__init__({"pole": AgentGroup(names, space, Discrete(2))}, num_envs, first_slot)
        self.arrays["ends"] = np.zeros((num_envs, 2), np.int64)
        self.arrays["alive"] = np.ones((num_envs, 2), bool)
        self._length = length

    def begin(self, rows: Array) -> None:
        drawn = self.random(rows).uniform(0.5, 1.5, 1, 1).reshape(-1)
        long = np.maximum(3, (drawn * 3 * self._length).astype(np.int64))
        self.arrays["ends"][rows] = np.stack([long // 3, long], 1)
        self.arrays["alive"][rows] = True

    def advance(self, actions: ByGroup) -> Outcome:
        alive = self.arrays["alive"]
        earned = np.where(alive, actions["pole"] == 1, 0).astype(np.float64)
        fell = alive & (self.time[:, None] >= self.arrays["ends"])
        alive &= ~fell
        return Outcome({"pole": earned}, {"pole": fell}, {"pole": np.zeros_like(fell)}, ~alive.any(1))

    def observe(self) -> dict[str, Any]:
        seen = np.zeros((self.num_envs, 2, 2), np.float32)
        seen[..., 0] = (self.time[:, None] % 7) / 7
        seen[..., 1] = self.arrays["alive"]
        return {"pole": seen}

    def acting(self) -> ByGroup:
        return {"pole": self.arrays["alive"]}


class UnequalTurns(NativeEnv):
    """A game of turns: one agent moves often, the other after two to six moves of the first, as the copy draws it."""

    def __init__(self, num_envs: int, *, first_slot: int = 0) -> None:
        space, names = Box(-1, 1, (2,), np.float32), ("rare", "often")
        super().__init__({"player": AgentGroup(names, space, Discrete(2))}, num_envs, first_slot)
        self.arrays["turn"] = np.zeros(num_envs, np.int64)
        self.arrays["left"] = np.zeros(num_envs, np.int64)

    def begin(self, rows: Array) -> None:
        self.arrays["turn"][rows] = 0
        self.arrays["left"][rows] = self._drawn(rows)

    def _drawn(self, rows: Array) -> Array:
        return (2 + 5 * self.random(rows).uniform(0.0, 1.0, 1, 1).reshape(-1)).astype(np.int64)

    def advance(self, actions: ByGroup) -> Outcome:
        turn, left = self.arrays["turn"], self.arrays["left"]
        moved = turn[:, None] == np.arange(2)
        earned = np.where(moved, actions["player"] == 1, 0).astype(np.float64)
        drawn = self._drawn(np.arange(self.num_envs))
        left[:] = np.where(turn == 0, drawn, left - 1)
        turn[:] = np.where((turn == 0) | (left > 0), 1, 0)
        over = self.time >= 40
        everyone = np.repeat(over[:, None], 2, 1)
        return Outcome({"player": earned}, {"player": everyone}, {"player": np.zeros_like(everyone)}, over)

    def observe(self) -> dict[str, Any]:
        seen = np.zeros((self.num_envs, 2, 2), np.float32)
        seen[..., 0] = (self.time[:, None] % 5) / 5
        seen[..., 1] = self.arrays["turn"][:, None]
        return {"player": seen}

    def acting(self) -> ByGroup:
        return {"player": self.arrays["turn"][:, None] == np.arange(2)}
