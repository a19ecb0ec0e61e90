"""Kuhn and Leduc poker, as in OpenSpiel: `shoal/kuhn`, `shoal/leduc`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from shoal.api.env import Array
from shoal.envs.games.rules import CHANCE, OVER, Rules
from shoal.envs.games.table_env import TableEnv

NOBODY = -1


class Kuhn(Rules):
    """Three cards, one each, an ante of one. Bet or pass in turn: a bet that is passed on is won, two bets or passes show cards.

    Kuhn 1950. A state is (cards dealt, moves made); 0 passes, 1 bets. The first player's value is -1/18.
    """

    players, actions = 2, 2
    CARDS = 3

    def start(self) -> tuple[tuple[int, ...], str]:
        return (), ""

    def mover(self, state: tuple[tuple[int, ...], str]) -> int:
        cards, moves = state
        if len(cards) < 2:
            return CHANCE
        return OVER if moves in ("00", "11", "01" + "0", "01" + "1", "10") else len(moves) % 2

    def chances(self, state: tuple[tuple[int, ...], str]) -> list[tuple[float, tuple[tuple[int, ...], str]]]:
        cards, moves = state
        left = [card for card in range(self.CARDS) if card not in cards]
        return [(1 / len(left), ((*cards, card), moves)) for card in left]

    def legal(self, state: tuple[tuple[int, ...], str]) -> list[int]:
        return [0, 1]

    def follow(self, state: tuple[tuple[int, ...], str], action: int) -> tuple[tuple[int, ...], str]:
        return state[0], state[1] + str(action)

    def payoff(self, state: tuple[tuple[int, ...], str]) -> tuple[float, ...]:
        (first, second), moves = state
        if moves.endswith("10"):  # whoever passed on a bet lost the ante
            won = 1.0 if len(moves) % 2 == 0 else -1.0
        else:
            won = (2.0 if moves.endswith("11") else 1.0) * (1 if first > second else -1)
        return won, -won

    def knows(self, state: tuple[tuple[int, ...], str], player: int) -> Hashable:
        cards, moves = state
        return cards[player : player + 1], len(cards), moves

    def see(self, state: tuple[tuple[int, ...], str], player: int) -> Array:
        """Which player it is, its card, and for each of three moves whether it was a pass or a bet."""
        cards, moves = state
        seen = np.zeros(2 + self.CARDS + 6)
        seen[player] = 1
        if len(cards) > player:
            seen[2 + cards[player]] = 1
        for turn, move in enumerate(moves):
            seen[2 + self.CARDS + 2 * turn + int(move)] = 1
        return seen

    def describe(self, seen: Array) -> str:
        moves = [("pass", "bet")[int(pair[1])] for pair in seen[2 + self.CARDS :].reshape(3, 2) if pair.any()]
        return f"your card: {_card(seen[2 : 2 + self.CARDS])}; moves: {', '.join(moves) or 'none yet'}"

    def action_names(self) -> list[str]:
        return ["pass", "bet"]


class Hand(NamedTuple):
    """A state of Leduc poker. Cards 0 to 5, of which two and two have a rank."""

    cards: tuple[int, ...] = ()
    """Those of the players, then the open one."""
    moves: tuple[str, ...] = ("",)
    """By round: f, c, r."""
    put: tuple[int, int] = (1, 1)
    """By player, chips in the middle."""
    folded: int = NOBODY


class Leduc(Rules):
    """Six cards of three ranks, one each and an open one after the first round. Two rounds of fold, call, raise, two raises each.

    Southey et al. 2005. A raise is by 2 in the first round and by 4 in the second; a pair with the open card wins, then the higher
    rank. The first player's value is -0.0856064.
    """

    players, actions = 2, 3
    FOLD, CALL, RAISE = range(3)
    MOST_RAISES, CARDS, MOST_MOVES = 2, 6, 4

    def start(self) -> Hand:
        return Hand()

    def mover(self, state: Hand) -> int:
        if state.folded != NOBODY or (len(state.moves) == 2 and self._closed(state)):
            return OVER
        if len(state.cards) < 2 or (len(state.cards) == 2 and self._closed(state)):
            return CHANCE
        return len(state.moves[-1]) % 2

    def _closed(self, state: Hand) -> bool:
        """All have called in this round."""
        return len(state.moves[-1]) >= 2 and state.moves[-1].endswith("c")

    def chances(self, state: Hand) -> list[tuple[float, Hand]]:
        left = [card for card in range(self.CARDS) if card not in state.cards]
        moves = (*state.moves, "") if len(state.cards) == 2 else state.moves
        return [(1 / len(left), state._replace(cards=(*state.cards, card), moves=moves)) for card in left]

    def legal(self, state: Hand) -> list[int]:
        mover, raises = self.mover(state), state.moves[-1].count("r")
        return (
            [self.FOLD] * (state.put[mover] < max(state.put)) + [self.CALL] + [self.RAISE] * (raises < self.MOST_RAISES)
        )

    def follow(self, state: Hand, action: int) -> Hand:
        mover = self.mover(state)
        moves = (*state.moves[:-1], state.moves[-1] + "fcr"[action])
        if action == self.FOLD:
            return state._replace(moves=moves, folded=mover)
        more = (2 * len(moves)) if action == self.RAISE else 0
        put = list(state.put)
        put[mover] = max(put) + more
        return state._replace(moves=moves, put=(put[0], put[1]))

    def payoff(self, state: Hand) -> tuple[float, ...]:
        if state.folded != NOBODY:
            won = float(state.put[state.folded]) * (1 if state.folded == 1 else -1)
            return won, -won
        first, second, public = (card // 2 for card in state.cards)
        strength = [(own == public, own) for own in (first, second)]
        won = float(state.put[0]) * ((strength[0] > strength[1]) - (strength[0] < strength[1]))
        return won, -won

    def knows(self, state: Hand, player: int) -> Hashable:
        """Cards of equal rank are the same to everyone."""
        ranks = [card // 2 for card in state.cards]
        return tuple(ranks[player : player + 1]), tuple(ranks[2:]), len(state.cards), state.moves

    def see(self, state: Hand, player: int) -> Array:
        """Which player it is, its rank, the open rank, and for each of four moves in two rounds if it was a call or a raise."""
        seen = np.zeros(2 + 3 + 3 + 2 * self.MOST_MOVES * 2)
        seen[player] = 1
        if len(state.cards) > player:
            seen[2 + state.cards[player] // 2] = 1
        if len(state.cards) == 3:
            seen[5 + state.cards[2] // 2] = 1
        for turn, moves in enumerate(state.moves):
            for place, move in enumerate(moves):
                if move != "f":
                    seen[8 + 2 * (self.MOST_MOVES * turn + place) + (move == "r")] = 1
        return seen

    def describe(self, seen: Array) -> str:
        rounds = [
            ", ".join(("call", "raise")[int(pair[1])] for pair in part if pair.any()) or "none yet"
            for part in seen[8:].reshape(2, self.MOST_MOVES, 2)
        ]
        own, public = _card(seen[2:5]), _card(seen[5:8])
        if not seen[5:8].any():
            return f"your card: {own}; moves: {rounds[0]}"
        return f"your card: {own}, open: {public}; moves before it: {rounds[0]}, after it: {rounds[1]}"

    def action_names(self) -> list[str]:
        return ["fold", "call", "raise"]


def _card(seen: Array) -> str:
    """By its rank."""
    return ("jack", "queen", "king")[int(seen.argmax())] if seen.any() else "none"


class KuhnPoker(TableEnv):
    """Kuhn poker, two players."""

    rules = Kuhn


class LeducPoker(TableEnv):
    """Leduc poker, two players."""

    rules = Leduc
