"""What members earn in games of three or more, or of two of whom one does not lose what the other wins: by who played along.

A *profile* is a member for each seat. Computed from the journal, where such a match is a record for each opponent, one behind the
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement, product

import numpy as np

from shoal.api.env import Array
from shoal.api.league import Member

Profile = tuple[Member, ...]
EVEN = 1e-4
"""Earnings that add up to less are those of a zero-sum game."""


class JointPayoffs:
    """Of games that were played to measure. `equal`: any agent may be any player, so the order within a profile says nothing."""

    def __init__(self, parties: int, *, equal: bool) -> None:
        self.parties, self.equal = parties, equal
        self.general = parties > 2
        """What pairs of members earn is not enough: there are more parties, or what a member earns against itself counts."""
        self._place: dict[Profile, int] = {}
        self._games = np.zeros(0, np.int64)
        self._earned = np.zeros((0, parties))

    def add(self, matches: Array) -> None:
        """Matches of the journal that come after all before. One of which not all opponents are there was torn, and is left."""
        members, earned = self._whole(matches[matches["measured"] == 1])
        if not len(members):
            return
        if self.equal:
            self.general |= bool((np.abs(earned.sum(axis=1)) > EVEN).any())
            order = np.lexsort((members[:, :, 1], members[:, :, 0]), axis=1)
            members = np.take_along_axis(members, order[:, :, None], axis=1)
            earned = np.take_along_axis(earned, order, axis=1)
        each, back = np.unique(members.reshape(len(members), -1), axis=0, return_inverse=True)
        places = np.array([self.place(_profile(row)) for row in each.tolist()])[back.reshape(-1)]
        np.add.at(self._games, places, 1)
        np.add.at(self._earned, places, earned)

    def _whole(self, matches: Array) -> tuple[Array, Array]:
        """`[matches, parties, 2]` members and `[matches, parties]` what they earned."""
        others = self.parties - 1
        if not len(matches):
            return np.zeros((0, self.parties, 2), np.int64), np.zeros((0, self.parties))
        slot, episode = matches["slot"].astype(np.int64), matches["episode"].astype(np.int64)
        new = (
            np.append(True, (np.diff(slot) != 0) | (np.diff(episode) != 0))
            if others > 1
            else np.ones(len(matches), bool)
        )
        begins = np.flatnonzero(new)
        whole = begins[np.diff(np.append(begins, len(matches))) == others]
        rows = whole[:, None] + np.arange(others)
        own = np.stack([matches["asker"][whole], matches["own"][whole]], axis=-1)[:, None]
        met = np.stack([matches["opponent"][rows], matches["member"][rows]], axis=-1)
        paid = np.concatenate([matches["earned"][whole][:, None], matches["against"][rows]], axis=1)
        return np.concatenate([own, met], axis=1).astype(np.int64), paid.astype(np.float64)

    def place(self, profile: Profile) -> int:
        """Its row; a new one where it was never played."""
        if profile not in self._place:
            self._place[profile] = len(self._place)
            self._games = np.append(self._games, 0)
            self._earned = np.concatenate([self._earned, np.zeros((1, self.parties))])
        return self._place[profile]

    def games(self, places: Array) -> Array:
        """How often profiles were played."""
        return self._games[places]

    # ---------------------------------------------------------------- tables

    def profiles(self, members: Sequence[Sequence[Member]]) -> list[Profile]:
        """All that can be played by some members, given for each party, or once for all that are equal."""
        if self.equal:
            return [tuple(each) for each in combinations_with_replacement(sorted(members[0]), self.parties)]
        return list(product(*members))

    def tables(self, members: Sequence[Sequence[Member]]) -> list[Array]:
        """An array per party, `[members of party 0, members of party 1, ...]`: what it earns on average; 0 where nobody played."""
        by_party = [members[0]] * self.parties if self.equal else list(members)
        shape = tuple(len(each) for each in by_party)
        found = [np.zeros(shape) for _ in range(self.parties)]
        for place in np.ndindex(*shape):
            chosen = [own[index] for own, index in zip(by_party, place, strict=True)]
            for party, table in enumerate(found):
                table[place] = self._mean(chosen, party)
        return found

    def _mean(self, chosen: list[Member], party: int) -> float:
        key = tuple(sorted(chosen)) if self.equal else tuple(chosen)
        row = self.place(key)
        if not self._games[row]:
            return 0.0
        seats = [seat for seat, member in enumerate(key) if member == chosen[party]] if self.equal else [party]
        return float(self._earned[row, seats].mean() / self._games[row])


class Profiles:
    """Profiles that are to be played, each `most` times, and which of them next: the one that was played least."""

    def __init__(self, profiles: list[Profile], payoffs: JointPayoffs, most: int) -> None:
        self._profiles, self._payoffs, self._most = profiles, payoffs, most
        self._number = {profile: number for number, profile in enumerate(profiles)}
        self._places = np.array([payoffs.place(profile) for profile in profiles], np.int64)

    @property
    def wanting(self) -> bool:
        """Some were not played often enough."""
        return bool((self._payoffs.games(self._places) < self._most).any())

    def known(self, games: float) -> bool:
        """All were played so often."""
        return bool((self._payoffs.games(self._places) >= min(games, self._most)).all())

    def choose(self, under_way: Iterable[Profile]) -> Profile | None:
        """What is played next, given what is being played; None: all were played often enough."""
        games = self._payoffs.games(self._places).copy()
        for profile in under_way:
            if profile in self._number:
                games[self._number[profile]] += 1
        if not len(games) or games.min() >= self._most:
            return None
        return self._profiles[int(games.argmin())]


def _profile(row: list[int]) -> Profile:
    return tuple(zip(row[::2], row[1::2], strict=True))
