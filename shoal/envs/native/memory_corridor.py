"""`shoal/memory-corridor`: a T-maze. What was seen at the start decides what is right at the end (after Bakker 2002)."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome
from shoal.envs.registry import AGENT

LEFT, RIGHT, CORRIDOR, JUNCTION = range(4)
"""Places of the observation, one-hot: the two cues, any other cell of the corridor, its end."""
WALK, TURN_LEFT, TURN_RIGHT = range(3)


class MemoryCorridor(NativeEnv):
    """A cue, left or right by chance, is seen in the first cell alone. `length` steps on, at the junction, turn where it said.

    Turning right as told pays 1 and ends the episode, turning wrong ends it with 0. Who turns before the junction, or walks on at
    it, stays where it is. Episodes are cut after `4 * (length + 1)` steps.

    The best is 1 in `length + 1` steps. Without memory it is 1/2: every junction looks the same, so one chance q of turning left
    serves both cues, which pays at most q / 2 + (1 - q) / 2.
    """

    best_return = 1.0

    def __init__(self, num_envs: int, *, first_slot: int = 0, length: int = 10) -> None:
        if length < 1:
            raise ValueError("length is at least 1")
        groups = {AGENT: AgentGroup((AGENT,), Box(0.0, 1.0, (4,)), Discrete(3))}
        super().__init__(groups, num_envs, first_slot)
        self._length, self._limit = length, 4 * (length + 1)
        self.arrays["cue"] = np.zeros(num_envs, np.int64)
        self.arrays["cell"] = np.zeros(num_envs, np.int64)

    def begin(self, rows: Array) -> None:
        self.arrays["cue"][rows] = self.random(rows).integers(2)
        self.arrays["cell"][rows] = 0

    def advance(self, actions: ByGroup) -> Outcome:
        cue, cell, action = self.arrays["cue"], self.arrays["cell"], actions[AGENT][:, 0]
        turned = (cell == self._length) & (action != WALK)
        cell += (action == WALK) & (cell < self._length)
        right = turned & (action == np.where(cue == LEFT, TURN_LEFT, TURN_RIGHT))
        cut = ~turned & (self.time >= self._limit)
        reward = {AGENT: right[:, None].astype(np.float64)}
        return self.ended_together(reward, turned, cut)

    def observe(self) -> ByGroup:
        cell = self.arrays["cell"]
        place = np.where(cell == 0, self.arrays["cue"], np.where(cell == self._length, JUNCTION, CORRIDOR))
        return {AGENT: np.eye(4, dtype=np.float32)[place][:, None]}
