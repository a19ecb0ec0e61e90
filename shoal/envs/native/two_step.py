"""`shoal/two-step`: the game on which value factorisation is told apart. Rashid et al. 2018 (QMIX), representational complexity."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome

GROUP = "agent"
SAFE, RISKY = 1, 2


class TwoStep(NativeEnv):
    """In the first step the first agent alone chooses the second step's game; both earn what their actions pay there.

    Action 0 leads to a game that pays 7 whatever they do, action 1 to one that pays 8 if both choose 1, 1 if one of them
    does, and 0 if none. The best is 8; the sum of the agents' values (VDN) only finds 7. Everyone sees the place, one-hot,
    and with `agent_id` its own number.
    """

    PAYOFF = np.array([[[0.0, 0.0], [0.0, 0.0]], [[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])
    """`[place, action of the first, action of the second]`."""
    best_return = 8.0
    game_return = "mean"

    def __init__(self, num_envs: int, *, first_slot: int = 0, agent_id: bool = True) -> None:
        space = Box(0.0, 1.0, (5 if agent_id else 3,))
        super().__init__({GROUP: AgentGroup(("agent_0", "agent_1"), space, Discrete(2))}, num_envs, first_slot)
        self.arrays["place"] = np.zeros(num_envs, np.int64)
        self._ids = np.broadcast_to(np.eye(2, 2 if agent_id else 0, dtype=np.float32), (num_envs, 2, 2 * agent_id))

    def begin(self, rows: Array) -> None:
        self.arrays["place"][rows] = 0

    def advance(self, actions: ByGroup) -> Outcome:
        place, (first, second) = self.arrays["place"], actions[GROUP].T
        pay = self.PAYOFF[place, first, second]
        over = place != 0
        place[:] = np.where(over, place, np.where(first == 0, SAFE, RISKY))
        return self.ended_together(self.for_all(pay), terminated=over)

    def observe(self) -> ByGroup:
        place = np.repeat(self._place()[:, None], 2, axis=1)
        return {GROUP: np.concatenate([place, self._ids], axis=2)}

    def global_state(self, seen: ByGroup) -> Array:
        return self._place()

    def _place(self) -> Array:
        return np.eye(3, dtype=np.float32)[self.arrays["place"]]
