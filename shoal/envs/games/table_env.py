"""A game of a table as an environment: all copies move by the same look-ups."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.games.rules import CHANCE, OVER, Rules
from shoal.envs.games.table import Table
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome

GROUP = "player"


@cache
def table_of(rules: type[Rules], *settings: float) -> Table:
    """Made once in a process."""
    return Table(rules(*settings))


class TableEnv(NativeEnv):
    """`player_0`, `player_1`, ... move in turn or, where the rules say so, at once; rewards come at the end."""

    rules: ClassVar[type[Rules]]

    def __init__(self, num_envs: int, *settings: float, first_slot: int = 0) -> None:
        self.table = table = table_of(self.rules, *settings)
        low, high = min(map(np.min, table.seen)), max(map(np.max, table.seen))
        space = Box(float(low), float(high), table.seen[0].shape[1:], np.float32)
        agents = tuple(f"player_{number}" for number in range(table.players))
        super().__init__({GROUP: AgentGroup(agents, space, Discrete(table.actions))}, num_envs, first_slot)
        self.arrays["state"] = np.zeros(num_envs, np.int64)

    def begin(self, rows: Array) -> None:
        self.arrays["state"][rows] = 0
        self._chance(rows)

    def advance(self, actions: ByGroup) -> Outcome:
        state, chosen = self.arrays["state"], actions[GROUP]
        rows = np.arange(self.num_envs)
        for player in range(self.table.players) if self.table.simultaneous else (None,):
            mover = self.table.mover[state] if player is None else np.full(self.num_envs, player)
            moved = self.table.child[state, chosen[rows, np.maximum(mover, 0)]]
            moves = (self.table.mover[state] == mover) & (mover >= 0)
            if (moved[moves] < 0).any():
                raise ValueError("an action that the mask does not allow")
            state[:] = np.where(moves, moved, state)
        self._chance(rows)
        over = self.table.mover[state] == OVER
        reward = np.where(over[:, None], self.table.payoff[state], 0.0)
        return self.ended_together({GROUP: reward}, over)

    def _chance(self, rows: Array) -> None:
        """Until somebody moves or it is over."""
        state, random = self.arrays["state"], self.random(rows)
        while (waits := self.table.mover[state[rows]] == CHANCE).any():
            shares = random.uniform(0.0, 1.0)
            state[rows[waits]] = self.table.draw(state[rows[waits]], shares[waits])

    def observe(self) -> ByGroup:
        return {GROUP: np.stack([seen[known] for seen, known in self._known(self.table.seen)], axis=1)}

    def acting(self) -> ByGroup:
        if self.table.simultaneous:
            return {}
        return {GROUP: self.table.mover[self.arrays["state"]][:, None] == np.arange(self.table.players)}

    def action_masks(self) -> ByGroup:
        return {GROUP: np.stack([legal[known] for legal, known in self._known(self.table.legal)], axis=1)}

    def describe(self, agent: str, observation: Array) -> str:
        return self.table.rules.describe(observation)

    def action_names(self, agent: str) -> list[str]:
        return self.table.rules.action_names()

    def _known(self, tables: list[Array]) -> list[tuple[Array, Array]]:
        """By player, a table and the rows of it."""
        return list(zip(tables, self.table.knows[self.arrays["state"]].T, strict=True))
