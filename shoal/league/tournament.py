"""A tournament: which games are played next, and who is how strong by those that were. No process, no environment."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from shoal.api.env import Array
from shoal.api.league import Member
from shoal.base.seeding import derive_seed
from shoal.evaluation.arena import Job
from shoal.league.payoffs import Payoffs
from shoal.league.ratings import Ratings, rate, win_rate

AT_LEAST = 8
"""Batches in a round, so that many cores have something to do."""
SURE = 2.81
"""Standard errors by which two ratings are apart that are looked at after ten rounds: 95 % for all of them together."""


class Tournament:
    """Rounds of jobs, each of `batch` games at most. A round follows from the results of those before, so it does not matter who
    plays them, or how many at once.

    Each two play `games` on average: first all of them some, then those more about whose share of points least is known. With
    `until_separated` only neighbours play on whose order is open, until none is left or they have played `games`.
    """

    def __init__(self, players: int, *, batch: int, games: int, until_separated: bool, seed: int) -> None:
        self.members: list[Member] = [(player, 0) for player in range(players)]
        self.payoffs = Payoffs()
        for member in self.members:
            self.payoffs.place(member)
        self._pairs = list(combinations(range(players), 2))
        self.batch = batch
        self._games, self._until_separated, self._seed = games, until_separated, seed
        self._begun = dict.fromkeys(self._pairs, 0)

    @property
    def played(self) -> int:
        """Games, of all together."""
        return int(self.payoffs.played.sum()) // 2

    @property
    def ratings(self) -> Ratings:
        """In the order of the players."""
        return rate(self.payoffs.of(self.members)[0])

    def open_pairs(self) -> list[tuple[int, int]]:
        """Neighbours by rating of whom it is not known who is stronger."""
        ratings = self.ratings
        order = np.argsort(-ratings.points, kind="stable").tolist()
        return [
            (min(pair), max(pair))
            for pair in zip(order, order[1:], strict=False)
            if not ratings.separated(*pair, sure=SURE)
        ]

    def add(self, matches: Array) -> None:
        """What came of a job."""
        self.payoffs.add(matches)

    def round(self) -> list[Job]:
        """What is played next; nothing: it is over."""
        if not self.played:
            some = self._games if len(self._pairs) == 1 else self._games // 4
            first = min(self.batch if self._until_separated else max(self.batch, some), self._games)
            return [job for pair in self._pairs for job in self._jobs(pair, first)]
        if self._until_separated:
            return self._allot([p for p in self.open_pairs() if self._count(p) < self._games], self._games)
        left = self._games * len(self._pairs) - self.played
        return self._allot(self._pairs, None, left)

    # ---------------------------------------------------------------- jobs

    def _allot(self, pairs: list[tuple[int, int]], most: int | None, left: int | None = None) -> list[Job]:
        """Batch by batch to the pair of which least is known then. `most`: games of each; `left`: of all together."""
        planned = dict.fromkeys(pairs, 0)
        budget = max(AT_LEAST * self.batch, self.played // 2)
        budget = budget if left is None else min(budget, left)
        while budget > 0:
            open_ = [p for p in pairs if most is None or self._count(p) + planned[p] < most]
            if not open_:
                break
            pair = max(open_, key=lambda each: self._width(each, planned[each]))
            room = budget if most is None else min(budget, most - self._count(pair) - planned[pair])
            planned[pair] += min(self.batch, room)
            budget -= min(self.batch, room)
        return [job for pair, games in planned.items() for job in self._jobs(pair, games)]

    def _count(self, pair: tuple[int, int]) -> int:
        return int(self.payoffs.played[pair])

    def _width(self, pair: tuple[int, int], more: int) -> float:
        """Of the interval of its share of points, if that stays as it is for some more games."""
        games = float(self.payoffs.games[pair])
        share = float(self.payoffs.points[pair]) / max(games, 1.0)
        _, low, high = win_rate(share * (games + more), 0.0, (1 - share) * (games + more))
        return high - low

    def _jobs(self, pair: tuple[int, int], games: int) -> list[Job]:
        found = []
        while games > 0:
            number, self._begun[pair] = self._begun[pair], self._begun[pair] + 1
            found.append(
                Job(*pair, min(games, self.batch), derive_seed(self._seed, f"games of {pair[0]} and {pair[1]}", number))
            )
            games -= self.batch
        return found
