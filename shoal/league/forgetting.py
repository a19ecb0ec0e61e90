"""The alarm for forgetting: a player that once beat its own past, and no longer does."""

from __future__ import annotations

from shoal.api.league import Member
from shoal.league.ratings import win_rate
from shoal.league.standings import Standings

SURE = 3.3
"""Standard errors on either side: looked at often, intervals of 95 % would be apart by chance."""
GAMES = 30.0
"""Games, with those that fade counted less, from which a win rate says something."""


class Forgetting:
    """Looks now and then. A fall counts when the intervals of the best win rate ever and of the present one are apart."""

    def __init__(self) -> None:
        self._best: dict[tuple[int, Member], float] = {}
        """Player and one of its own members -> the highest lower end of its win rate."""
        self.forgotten: dict[tuple[int, Member], tuple[float, float]] = {}
        """Those that it no longer beats as it did: at least so often then, at most so often now."""

    def look(self, standings: Standings) -> list[tuple[int, Member]]:
        """Those that were forgotten since the last look."""
        before, self.forgotten = set(self.forgotten), {}
        for player in range(len(standings.players)):
            for member in standings.of(player):
                self._compare(standings, player, member)
        return [each for each in self.forgotten if each not in before]

    def _compare(self, standings: Standings, player: int, member: Member) -> None:
        points, games = standings.payoffs.of([(player, -1), member])
        if games[0, 1] < GAMES:
            return
        _, low, high = win_rate(points[0, 1], 0.0, games[0, 1] - points[0, 1], SURE)
        best = self._best[player, member] = max(low, self._best.get((player, member), 0.0))
        if high < best:
            self.forgotten[player, member] = (best, high)
