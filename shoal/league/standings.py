"""Where a league stands: its players, the members that may be met, and what is known of their strength."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.api.env import Array
from shoal.api.league import LIVE, LeagueConfig, Member
from shoal.league.payoffs import Payoffs
from shoal.league.profiles import JointPayoffs, Profile, Profiles
from shoal.league.ratings import Ratings, rate

Pair = tuple[Member, Member]
AT_ONCE = 32
"""One in so many pairs is ranked at a time: with few pairs each game is chosen for itself."""
FEW = 8
"""Games that say little about how far results lie apart."""


@dataclass(frozen=True)
class Facts:
    """Of one member."""

    steps: int
    """Environment steps of the run when it was frozen."""
    version: int
    """Of the player, at that time."""


class Pairs:
    """Pairs of members that are to meet, each `most` times, and which of them wants another game next."""

    def __init__(self, pairs: list[Pair], payoffs: Payoffs, most: int) -> None:
        self._pairs, self._payoffs, self._most = pairs, payoffs, most
        self._number: dict[Profile, int] = {pair: number for number, pair in enumerate(pairs)}
        places = [[payoffs.place(member) for member in pair] for pair in pairs]
        self._rows, self._columns = np.array(places, np.int64).reshape(-1, 2).T
        self._next: list[int] = []

    @property
    def wanting(self) -> bool:
        """Some have not met often enough."""
        return bool((self._payoffs.played[self._rows, self._columns] < self._most).any())

    def known(self, games: float) -> bool:
        """All have met so often."""
        return bool((self._payoffs.played[self._rows, self._columns] >= min(games, self._most)).all())

    def choose(self, under_way: Iterable[Profile]) -> Pair | None:
        """The pair that another game tells most about, given those that are being played; None: all have met often enough. Of many
        pairs some are ranked at once, and each of those has its turn before the others are looked at."""
        if not self._next:
            self._next = self._rank(under_way)
        return self._pairs[self._next.pop()] if self._next else None

    def _rank(self, under_way: Iterable[Profile]) -> list[int]:
        """Of those that have not met often enough, so many as are ranked at once, the best last."""
        more = np.zeros(len(self._pairs))
        for pair in under_way:
            if pair in self._number:
                more[self._number[pair]] += 1.0
        at, payoffs = (self._rows, self._columns), self._payoffs
        games = payoffs.games[at]
        open_ = games + more < self._most
        count = np.maximum(games, 1.0)
        spread = np.sqrt(np.maximum(payoffs.squares[at] / count - (payoffs.earned[at] / count) ** 2, 1e-4))
        known = np.where(games >= FEW, spread, max(1.0, float(spread.max(initial=0.0))))
        worth = np.where(open_, known / np.sqrt(games + more + 1.0), 0.0)
        best = np.argsort(-worth, kind="stable")[: max(1, len(self._pairs) // AT_ONCE)]
        return [int(number) for number in best[::-1] if open_[number]]


class Standings:
    """Follows from the journal: decisions are `apply`d, matches are `add`ed. `equal`: any agent may be any player. `parties`: how
    many play a match, each for itself."""

    def __init__(self, config: LeagueConfig, *, equal: bool, parties: int = 2) -> None:
        self.config, self.equal = config, equal
        self.joint = JointPayoffs(parties, equal=equal)
        self.players, self.roles = list(config.players), list(config.players.values())
        self.payoffs = Payoffs()
        self.frozen: dict[Member, Facts] = {}
        """All members that there ever were."""
        self.held: list[Member] = []
        """Those that may be met, in the order in which they came."""

    def apply(self, decision: dict[str, Any]) -> None:
        """A decision, as the journal has it."""
        if decision["kind"] not in ("froze", "left"):
            return
        member = self.players.index(decision["player"]), int(decision["number"])
        if decision["kind"] == "froze":
            self.frozen[member] = Facts(int(decision["steps"]), int(decision["version"]))
            self.held.append(member)
        else:
            self.held.remove(member)

    def add(self, matches: Array) -> None:
        """Matches of the journal that come after all before."""
        self.payoffs.add(matches)
        self.joint.add(matches)

    def name(self, member: Member) -> str:
        """`main-3`, or `main` as it learns."""
        player, number = member
        return self.players[player] if number == LIVE else f"{self.players[player]}-{number}"

    def of(self, player: int) -> list[Member]:
        """The members of one player that may be met."""
        return [member for member in self.held if member[0] == player]

    def newest(self, player: int) -> Member | None:
        """The last of a player's that was frozen."""
        return max((member for member in self.frozen if member[0] == player), default=None)

    def opponents(self, player: int) -> list[Member]:
        """The members that a player may meet: of everyone, or of the other side."""
        return [member for member in self.held if self.equal or member[0] != player]

    def win_rate(self, player: int, member: Member) -> tuple[float, float]:
        """What a player as it learns can expect against a member, and of how many games that is known."""
        return self.payoffs.win_rate((player, LIVE), member)

    # ---------------------------------------------------------------- pairs to measure

    def by_side(self) -> list[list[Member]]:
        """All that may be met; where sides differ, those of each."""
        return [self.held] if self.equal else [self.of(player) for player in range(len(self.players))]

    def pairs(self) -> Pairs | Profiles:
        """All members that may meet."""
        held = self.held
        if self.joint.general:
            return Profiles(self.joint.profiles(self.by_side()), self.joint, self.config.games)
        if self.equal:
            found = [(first, second) for place, first in enumerate(held) for second in held[place + 1 :]]
        else:
            found = [(first, second) for first in held if first[0] == 0 for second in held if second[0] == 1]
        return Pairs(found, self.payoffs, self.config.games)

    # ---------------------------------------------------------------- ratings

    def rated(self) -> list[Member]:
        """All that may be met, and the players as they learn."""
        return [*((player, LIVE) for player in range(len(self.players))), *self.held]

    def ratings(self) -> Ratings:
        """Of `rated`, in its order."""
        points, _ = self.payoffs.of(self.rated())
        return rate(points)
