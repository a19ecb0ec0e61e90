"""A game as arrays: a row per state. To play is to look up; what can be computed of a game is computed on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

import numpy as np

from shoal.api.env import Array
from shoal.envs.games.rules import CHANCE, OVER, Rules, State


class Table:
    """All states that can be reached, the first is 0, and none comes before one that leads to it."""

    def __init__(self, rules: Rules) -> None:
        self.rules, states = rules, _in_order(rules)
        number = {state: index for index, state in enumerate(states)}
        self.players, self.actions, self.simultaneous = rules.players, rules.actions, rules.simultaneous
        count, players = len(states), rules.players
        self.mover = np.array([rules.mover(state) for state in states])
        """`[states]`: a player, CHANCE or OVER."""
        self.child = np.full((count, rules.actions), -1)
        """`[states, actions]`: where a move leads; -1: it is not allowed."""
        self.payoff = np.zeros((count, players))
        """`[states, players]`, of states in which the game is over."""
        self.chance: dict[int, tuple[Array, Array]] = {}
        """State -> the states that chance leads to, and how often."""
        known: list[dict[Hashable, int]] = [{} for _ in range(players)]
        self.knows = np.zeros((count, players), np.int64)
        """`[states, players]`: the number of all that a player knows there; counted for each player from 0."""
        seen: list[list[Array]] = [[] for _ in range(players)]
        for index, state in enumerate(states):
            mover = self.mover[index]
            if mover == OVER:
                self.payoff[index] = rules.payoff(state)
            elif mover == CHANCE:
                shares, after = zip(*rules.chances(state), strict=True)
                self.chance[index] = np.array([number[each] for each in after]), np.array(shares)
            else:
                for action in rules.legal(state):
                    self.child[index, action] = number[rules.follow(state, action)]
            for player in range(players):
                fact = rules.knows(state, player)
                if fact not in known[player]:
                    known[player][fact] = len(known[player])
                    seen[player].append(rules.see(state, player))
                self.knows[index, player] = known[player][fact]
        self.seen = [np.array(rows, np.float32) for rows in seen]
        """By player, `[known, ...]`: what its policy is shown."""
        self.legal = [np.ones((len(rows), rules.actions), bool) for rows in seen]
        """By player, `[known, actions]`: what is allowed where it moves; all, where it does not."""
        for player in range(players):
            own = self.mover == player
            self.legal[player][self.knows[own, player]] = self.child[own] >= 0
        self._chance_rows()

    def _chance_rows(self) -> None:
        """The same as arrays, to draw from many at once: `[chance states, outcomes]`, filled up with the last."""
        most = max((len(after) for after, _ in self.chance.values()), default=1)
        self.chance_row = np.full(len(self.mover), -1)
        self.chance_child = np.zeros((len(self.chance), most), np.int64)
        self.chance_until = np.ones((len(self.chance), most))
        for row, (state, (after, shares)) in enumerate(self.chance.items()):
            self.chance_row[state] = row
            self.chance_child[row, : len(after)], self.chance_child[row, len(after) :] = after, after[-1]
            self.chance_until[row, : len(after) - 1] = np.cumsum(shares)[:-1]

    def draw(self, states: Array, shares: Array) -> Array:
        """Where chance leads; `shares` in [0, 1) by state."""
        rows = self.chance_row[states]
        outcome = (shares[:, None] >= self.chance_until[rows]).sum(axis=1)
        return self.chance_child[rows, outcome]


def _in_order(rules: Rules) -> list[State]:
    """All states, in an order in which those that lead to others come first."""
    start = rules.start()
    waiting, after = deque([start]), {start: _after(rules, start)}
    while waiting:
        for state in after[waiting.popleft()]:
            if state not in after:
                after[state] = _after(rules, state)
                waiting.append(state)
    comes = dict.fromkeys(after, 0)
    for states in after.values():
        for state in states:
            comes[state] += 1
    ready, order = deque([start]), []
    while ready:
        order.append(state := ready.popleft())
        for later in after[state]:
            comes[later] -= 1
            if not comes[later]:
                ready.append(later)
    return order


def _after(rules: Rules, state: State) -> list[State]:
    mover = rules.mover(state)
    if mover == OVER:
        return []
    if mover == CHANCE:
        return [each for _, each in rules.chances(state)]
    return [rules.follow(state, action) for action in rules.legal(state)]
