"""An environment in which only what nobody who learns can see explains the return."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome

BLIND, SEER = "blind", "seer"


class HiddenCoin(NativeEnv):
    """A coin of +1 or -1 is thrown for each episode and paid in every step, cut off after `length` steps.

    Two blind agents see zeros. The coin is the state, or, with `state` off, what a third agent sees.
    """

    def __init__(self, num_envs: int, *, first_slot: int = 0, state: bool = True, length: int = 3) -> None:
        box = Box(-1.0, 1.0, (2,), np.float32)
        groups = {BLIND: AgentGroup(("blind_0", "blind_1"), box, Discrete(2))}
        if not state:
            groups[SEER] = AgentGroup(("seer_0",), Box(-1.0, 1.0, (1,), np.float32), Discrete(2))
        super().__init__(groups, num_envs, first_slot)
        self._with_state, self._length = state, length
        self.arrays["coin"] = np.ones(num_envs, np.float32)

    def begin(self, rows: Array) -> None:
        self.arrays["coin"][rows] = np.sign(self.random(rows).uniform(-1, 1, 1)[:, 0])

    def advance(self, actions: ByGroup) -> Outcome:
        paid = self.for_all(self.arrays["coin"].astype(np.float64))
        return self.ended_together(paid, truncated=self.time >= self._length)

    def observe(self) -> ByGroup:
        seen = {BLIND: np.zeros((self.num_envs, 2, 2), np.float32)}
        if SEER in self.groups:
            seen[SEER] = self.arrays["coin"][:, None, None].copy()
        return seen

    def global_state(self, seen: ByGroup) -> Array | None:
        return self.arrays["coin"][:, None].copy() if self._with_state else None
