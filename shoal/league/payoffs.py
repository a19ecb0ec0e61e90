"""What players and members earn against each other, computed from the journal of matches: all at once, or as it grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.api.env import Array
from shoal.api.league import LIVE, Member

FADES = 0.99
"""What a game of a player that learns is worth after the next one with the same opponent: it was played by another version."""
_NUMBERS = 1 << 32


class Payoffs:
    """A table over all that ever met. Games between members, which do not change, count in full for ever."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self._place: dict[int, int] = {}
        self.played = np.zeros((0, 0), np.int64)
        """`[members, members]`: games, each counted once."""
        self.games = np.zeros((0, 0))
        """The same, faded; like the next, seen by the first of the two."""
        self.points = np.zeros((0, 0))
        """Games that it earned more in than the other, and half of those in which both earned the same."""
        self.earned = np.zeros((0, 0))
        """What it earned, added up."""
        self.squares = np.zeros((0, 0))

    def add(self, matches: Array) -> None:
        """Matches of the journal that come after all before. A player that met itself learned nothing about its strength."""
        asker, opponent = _codes(matches, "asker", "own"), _codes(matches, "opponent", "member")
        met = asker != opponent
        if not met.any():
            return
        first, second = self._places(asker[met]), self._places(opponent[met])
        count = len(self.members)
        swapped = first > second
        pair = np.where(swapped, second * count + first, first * count + second)
        fades = (matches["own"][met] == LIVE) | (matches["member"][met] == LIVE)
        weight, each, older = _weights(pair, fades)
        low, high = np.divmod(each, count)
        won, lost = (matches[name][met].astype(np.float64) for name in ("earned", "against"))
        points = np.where(won > lost, 1.0, np.where(won == lost, 0.5, 0.0))
        own = np.where(swapped, 1.0 - points, points), np.where(swapped, lost, won)
        other = np.where(swapped, points, 1.0 - points), np.where(swapped, won, lost)
        group = np.searchsorted(each, pair)

        def sums(values: Array | float) -> Array:
            return np.bincount(group, weight * values, len(each))

        played = np.bincount(group, minlength=len(each))
        for rows, columns, (point, gain) in ((low, high, own), (high, low, other)):
            self.played[rows, columns] += played
            for table, added in (
                (self.games, sums(1.0)),
                (self.points, sums(point)),
                (self.earned, sums(gain)),
                (self.squares, sums(gain**2)),
            ):
                table[rows, columns] = table[rows, columns] * older + added

    # ---------------------------------------------------------------- what is known of two

    def place(self, member: Member) -> int:
        """Its row; a new one where it never played."""
        found = self._place.get(_code(member))
        return int(self._places(np.array([_code(member)]))[0]) if found is None else found

    def win_rate(self, first: Member, second: Member) -> tuple[float, float]:
        """The share of points that the first can be expected to earn, and of how many games that is known: half, of none."""
        row, column = self.place(first), self.place(second)
        games = float(self.games[row, column])
        return (float(self.points[row, column]) + 1.0) / (games + 2.0), games

    def means(self, first: Sequence[Member], second: Sequence[Member]) -> Array:
        """`[first, second]`: what the first earn on average; 0 where they never met."""
        at = np.ix_([self.place(each) for each in first], [self.place(each) for each in second])
        found: Array = self.earned[at] / np.maximum(self.games[at], 1e-9)
        return found

    def errors(self, first: Sequence[Member], second: Sequence[Member]) -> Array:
        """`[first, second]`: standard errors of those means; infinite where they never met."""
        at = np.ix_([self.place(each) for each in first], [self.place(each) for each in second])
        games, mean = self.games[at], self.means(first, second)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.maximum(self.squares[at] / games - mean**2, 1e-6)
            found: Array = np.where(games > 1, np.sqrt(spread / games), np.inf)
        return found

    def of(self, members: Sequence[Member]) -> tuple[Array, Array]:
        """Points and games of some, `[members, members]`."""
        at = np.ix_([self.place(each) for each in members], [self.place(each) for each in members])
        return self.points[at], self.games[at]

    # ---------------------------------------------------------------- rows

    def _places(self, codes: Array) -> Array:
        new = [code for code in np.unique(codes).tolist() if code not in self._place]
        for code in new:
            self._place[code] = len(self.members)
            self.members.append((code // _NUMBERS, code % _NUMBERS - 1))
        if new:
            size = len(self.members)
            for name in ("played", "games", "points", "earned", "squares"):
                table = getattr(self, name)
                setattr(self, name, np.pad(table, (0, size - len(table))))
        known, back = np.unique(codes, return_inverse=True)
        return np.array([self._place[code] for code in known.tolist()], np.int64)[back]


def _code(member: Member) -> int:
    return member[0] * _NUMBERS + member[1] + 1


def _codes(matches: Array, player: str, member: str) -> Array:
    found: Array = matches[player].astype(np.int64) * _NUMBERS + matches[member].astype(np.int64) + 1
    return found


def _weights(pair: Array, fades: Array) -> tuple[Array, Array, Array]:
    """The weight of each game by how many of its pair come after it; the pairs, in order; what is left of their older games."""
    order = np.argsort(pair, kind="stable")
    each, begins, sizes = np.unique(pair[order], return_index=True, return_counts=True)
    rank = np.empty(len(pair), np.int64)
    rank[order] = np.arange(len(pair)) - np.repeat(begins, sizes)
    later = sizes[np.searchsorted(each, pair)] - 1 - rank
    weight = np.where(fades, FADES ** later.astype(np.float64), 1.0)
    older = np.where(fades[order][begins], FADES ** sizes.astype(np.float64), 1.0)
    return weight, each, older
