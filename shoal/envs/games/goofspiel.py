"""`shoal/goofspiel`: both bid a card for each prize, at once; bids are shown when both lie there."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from shoal.api.env import Array
from shoal.envs.games.rules import OVER, Rules
from shoal.envs.games.table_env import TableEnv

NONE = -1


class Hands(NamedTuple):
    """Cards that are left, as bits, the prizes won by the first less those of the second, and a bid that lies face down."""

    first: int
    second: int
    ahead: int = 0
    bid: int = NONE


class Goofspiel(Rules):
    """Prizes from the highest down to 1 go to the higher bid, or to nobody; more points win 1 and cost the other 1.

    How the hands and the points came about does not matter for what is left, and is no part of a state.
    """

    players, simultaneous = 2, True

    def __init__(self, cards: float = 5) -> None:
        self.actions = self._cards = int(cards)
        self._points = self._cards * (self._cards + 1) // 2

    def start(self) -> Hands:
        every = (1 << self._cards) - 1
        return Hands(every, every)

    def mover(self, state: Hands) -> int:
        return 1 if state.bid != NONE else 0 if state.first else OVER

    def legal(self, state: Hands) -> list[int]:
        hand = state[self.mover(state)]
        return [card for card in range(self._cards) if hand >> card & 1]

    def follow(self, state: Hands, action: int) -> Hands:
        if state.bid == NONE:
            return state._replace(bid=action)
        prize = state.first.bit_count()
        won = prize * ((state.bid > action) - (state.bid < action))
        return Hands(state.first & ~(1 << state.bid), state.second & ~(1 << action), state.ahead + won)

    def payoff(self, state: Hands) -> tuple[float, ...]:
        won = float(np.sign(state.ahead))
        return won, -won

    def knows(self, state: Hands, player: int) -> Hashable:
        """The first has seen its own bid, the second has not."""
        return state if player == 0 else state._replace(bid=NONE)

    def see(self, state: Hands, player: int) -> Array:
        """Own cards, those of the other, and how far ahead one is, as a share of all points."""
        hands = [state[side] >> card & 1 for side in (player, 1 - player) for card in range(self._cards)]
        return np.array([*hands, (1 - 2 * player) * state.ahead / self._points])

    def describe(self, seen: Array) -> str:
        own, other = (
            [str(card + 1) for card in range(self._cards) if seen[first + card]] for first in (0, self._cards)
        )
        ahead = round(float(seen[-1]) * self._points)
        points = f"{abs(ahead)} points {'ahead' if ahead >= 0 else 'behind'}"
        prize = f"the prize is {len(own)}" if own else "no prize is left"
        return f"{prize}; your cards: {' '.join(own)}; the other's: {' '.join(other)}; you are {points}"

    def action_names(self) -> list[str]:
        return [str(card + 1) for card in range(self._cards)]


class GoofspielEnv(TableEnv):
    """Goofspiel with so many `cards` each, prizes in descending order."""

    rules = Goofspiel

    def __init__(self, num_envs: int, *, first_slot: int = 0, cards: int = 5) -> None:
        super().__init__(num_envs, cards, first_slot=first_slot)
