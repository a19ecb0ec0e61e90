"""`shoal/deep-sea`: one treasure at the end of a path whose every step costs. Osband et al. 2020 (bsuite), deep sea."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Discrete, MultiBinary

from shoal.api.env import AgentGroup, Array
from shoal.base.seeding import generator
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome
from shoal.envs.registry import AGENT

COST = 0.01
"""Of moving right all the way down; each step its share."""


class DeepSea(NativeEnv):
    """A diver sinks one row a step, to the left or to the right; below the last column of the last row lies a treasure of 1.

    Moving right costs 0.01 / depth. Which of the two actions leads right differs from cell to cell, drawn once by `mapping_seed`
    for all copies and episodes. One path of 2^depth finds the treasure; all it sees is its cell, one-hot. `start`: in which row it
    begins, so far along the path; of 2^(depth - start) ways from there, one finds the treasure.
    """

    best_return = 1.0 - COST

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, depth: int = 10, mapping_seed: int = 0, start: int = 0
    ) -> None:
        if depth < 2:
            raise ValueError(f"a sea is at least 2 deep, not {depth}")
        if not 0 <= start < depth:
            raise ValueError(f"a diver starts in row 0 to {depth - 1}, not {start}")
        group = AgentGroup((AGENT,), MultiBinary(depth * depth), Discrete(2))
        super().__init__({AGENT: group}, num_envs, first_slot)
        self._depth, self._top = depth, start
        self.right = generator(mapping_seed, "deep sea").integers(2, size=(depth, depth))
        """`[row, column]`: the action that leads right."""
        self.arrays["column"] = np.zeros(num_envs, np.int64)

    def begin(self, rows: Array) -> None:
        self.arrays["column"][rows] = self._top

    def advance(self, actions: ByGroup) -> Outcome:
        column, row, last = self.arrays["column"], self._top + self.time - 1, self._depth - 1
        right = actions[AGENT][:, 0] == self.right[row, column]
        over = row == last
        reward = np.where(right, -COST / self._depth, 0.0) + (over & right & (column == last))
        column[:] = np.clip(column + np.where(right, 1, -1), 0, last)
        return self.ended_together({AGENT: reward[:, None]}, terminated=over)

    def observe(self) -> ByGroup:
        """After the last step it still sees the last row."""
        cell = np.minimum(self._top + self.time, self._depth - 1) * self._depth + self.arrays["column"]
        seen = np.zeros((self.num_envs, 1, self._depth**2), np.int8)
        seen[np.arange(self.num_envs), 0, cell] = 1
        return {AGENT: seen}

    def global_state(self, seen: ByGroup) -> Array:
        """What the diver sees."""
        return seen[AGENT][:, 0].astype(np.float32)
