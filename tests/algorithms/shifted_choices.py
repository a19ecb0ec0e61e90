"""A native environment whose choices do not count from 0, although they should."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome


class ShiftedChoices(NativeEnv):
    """Two agents, cut off after three steps; the second acts in every other step. Complains of choices that there are not."""

    def __init__(self, num_envs: int, *, first_slot: int = 0, start: int) -> None:
        self._space = Discrete(3, start=start)
        group = AgentGroup(("a", "b"), Box(-1.0, 1.0, (2,), np.float32), self._space)
        super().__init__({"agent": group}, num_envs, first_slot)

    def begin(self, rows: Array) -> None:
        pass

    def advance(self, actions: ByGroup) -> Outcome:
        acted = np.stack([np.ones(self.num_envs, bool), self.time % 2 == 1], axis=1)
        assert all(self._space.contains(action) for action in actions["agent"][acted])
        reward = (actions["agent"] == self._space.start) & acted
        return self.ended_together({"agent": reward.astype(np.float64)}, truncated=self.time >= 3)

    def observe(self) -> ByGroup:
        return {"agent": np.zeros((self.num_envs, 2, 2), np.float32)}

    def acting(self) -> ByGroup:
        return {"agent": np.stack([np.ones(self.num_envs, bool), self.time % 2 == 0], axis=1)}

    def global_state(self, seen: ByGroup) -> Array | None:
        return np.zeros((self.num_envs, 1), np.float32)
