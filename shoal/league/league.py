"""A league's decisions: what it hears goes into the journal, and what follows from that is decided. No process, no stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.api.env import Array
from shoal.api.league import LIVE, Member
from shoal.api.metric import Last, Metric
from shoal.base.seeding import generator
from shoal.league.forgetting import Forgetting
from shoal.league.journal import Journal
from shoal.league.profiles import Profiles
from shoal.league.ratings import SURE
from shoal.league.schemes import ROLES, Scheme, Shares, normalised
from shoal.league.standings import Pairs, Standings
from shoal.rollout.matchmaking import Given

LOOK = 256
"""Matches between two looks at odds and ratings."""
MOVED = 0.02
"""Odds that changed less are not worth an order."""
LEAST = 1e-4
"""Shares below that are none."""
FIRST, FEWEST = 0.25, 32
"""The share of all games that gives a first idea of what members earn, and how many must do in a hurry."""
GAMES = 30.0
"""Games against an opponent that say whether a player beats it."""


@dataclass
class League:
    """`seed`: of what it draws."""

    standings: Standings
    scheme: Scheme
    journal: Journal
    seed: int = 0
    matches: int = 0
    """In the journal; so are the next."""
    decisions: int = 0
    given: Given = field(default_factory=dict)
    """The odds by which players meet now."""
    _frozen_last: dict[str, int] = field(default_factory=dict)
    """By player: the member that it was frozen as by an earlier life that did not come to what follows; 0: it did."""
    _before: dict[str, dict[str, float]] = field(default_factory=dict)
    """Those that an earlier life had given, by names."""
    looked: int = -LOOK
    """Matches at the last look."""
    _joined: int = 1
    """Members since the last odds."""
    _roughly: bool = False
    """Those were made of a first idea of what members earn."""
    _forgetting: Forgetting = field(default_factory=Forgetting)
    _uncounted: list[Array] = field(default_factory=list)
    """Matches that are written and not part of the payoffs yet."""
    _met: list[Counter[str]] = field(default_factory=list)
    """By player: games since the last look, by opponent."""

    def begin(self) -> None:
        """Read the journal: all that is known follows from it."""
        for decision in self.journal.decisions():
            self.standings.apply(decision)
            self.decisions += 1
            if decision["kind"] == "odds":
                self._before = decision["odds"]
            elif decision["kind"] in ("froze", "reset"):
                self._frozen_last[decision["player"]] = decision.get("number", 0)
        found = self.journal.matches()
        self.matches = len(found)
        self.standings.add(found)
        self._met = [Counter() for _ in self.standings.players]

    def hear(self, matches: Array) -> None:
        """Matches that ended: they are written at once, and counted with the next that somebody needs."""
        if not len(matches):
            return
        self.journal.append(matches)
        self.matches += len(matches)
        self._uncounted.append(matches)
        if matches["measured"].any():  # whom to measure next depends on them
            self.count()

    def count(self) -> None:
        """Whatever was heard is part of the payoffs: some hundred matches at a time cost hardly more than one."""
        if not self._uncounted:
            return
        matches = np.concatenate(self._uncounted)
        self._uncounted.clear()
        self.standings.add(matches)
        trained = matches[matches["measured"] == 0]
        met = np.stack([trained["asker"], trained["opponent"], trained["member"] == LIVE], axis=1)
        each, games = np.unique(met, axis=0, return_counts=True)
        for (player, opponent, live), count in zip(each.tolist(), games.tolist(), strict=True):
            self._met[player]["live" if live else self.standings.players[opponent]] += count

    # ---------------------------------------------------------------- members

    def due(self, player: int, steps: int) -> str | None:
        """Why a player should join as it is now, after so many steps of the run; None: it should not."""
        standings, freeze = self.standings, self.standings.config.freeze
        newest = standings.newest(player)
        if newest is None:
            return "its first version"
        since = steps - standings.frozen[newest].steps
        if since >= freeze.steps:
            return f"{since:,} steps since {standings.name(newest)}"
        opponents = standings.opponents(player)
        if freeze.win_rate is None or not opponents:
            return None
        self.count()
        rates = [standings.win_rate(player, member) for member in opponents]
        if all(games >= GAMES and rate >= freeze.win_rate for rate, games in rates):
            return f"it earns {min(rate for rate, _ in rates):.2f} of the points or more against all {len(rates)} that it meets"
        return None

    def freeze(self, player: int, number: int, *, steps: int, version: int, reason: str) -> list[Member]:
        """It joins; those that leave for it."""
        name = self.standings.players[player]
        self._decide("froze", reason, player=name, number=number, steps=steps, version=version)
        return self.thin(player)

    def thin(self, player: int) -> list[Member]:
        """Of more members than are kept, those leave that are met least. Also for a life that ended before it was done."""
        name, left = self.standings.players[player], list[Member]()
        while len(own := self.standings.of(player)) > self.standings.config.keep:
            member = min(own[:-1], key=lambda each: (self._share(each), each[1]))
            reason = f"{len(own)} members, and it is met least ({self._share(member):.3f} of the games)"
            self._decide("left", reason, player=name, number=member[1])
            left.append(member)
        return left

    def _share(self, member: Member) -> float:
        """How often anybody meets it, or met it in the life before."""
        if not self.given:
            return sum(odds.get(self.standings.name(member), 0.0) for odds in self._before.values())
        return sum(
            share for given in self.given.values() for player, number, share in given if (player, number) == member
        )

    def begin_late(self) -> list[int]:
        """The players that begin anew now, since an earlier life died between freezing them and that."""
        frozen, self._frozen_last = self._frozen_last, {}
        return [
            number
            for number, player in enumerate(self.standings.players)
            if frozen.get(player) and self.begins_anew(number, frozen[player])
        ]

    def begins_anew(self, player: int, number: int) -> bool:
        """Whether a player that was just frozen goes on from where it began."""
        role = self.standings.roles[player]
        chance = 1.0 if self.scheme.anew else ROLES[role].reset
        if generator(self.seed, "reset", player, number).random() >= chance:
            return False
        name = self.standings.players[player]
        self._decide("reset", f"the role {role} begins anew" if not self.scheme.anew else "a cold start", player=name)
        return True

    def _decide(self, kind: str, reason: str, **facts: object) -> None:
        self.standings.apply(self.journal.decide(kind, reason, matches=self.matches, **facts))
        self.decisions += 1
        self._joined += kind == "froze"

    # ---------------------------------------------------------------- odds

    def look(self, pairs: Pairs | Profiles) -> bool:
        """Now and then; whether odds have changed. A scheme that waits looks when members have met, twice for each that joined:
        often enough for a first idea, and as often as they should. Where a second one joined before that, fewer games must do."""
        ready = not pairs.wanting
        enough = FIRST * self.standings.config.games if self._joined == 1 else FEWEST
        first = self._joined > 0 and pairs.known(enough)
        if self.scheme.waits:
            due = (self._joined > 0 or self._roughly) and (ready or first or not self.given)
        else:
            due = self._joined > 0 or self.matches - self.looked >= LOOK
        if not due:
            return False
        self.count()
        standings = self.standings
        shares = {player: self.scheme.shares(standings, number) for number, player in enumerate(standings.players)}
        given = {player: _given(normalised(own)) for player, own in shares.items()}
        moved = max((_distance(given[player], self.given.get(player, [])) for player in given), default=0.0)
        self.looked, changed = self.matches, self._joined > 0 or self._roughly
        self._joined, self._roughly = 0, self.scheme.waits and not ready
        if moved <= MOVED and not (changed and moved > 0):
            return False
        self.given = given
        odds = {p: {standings.name((o, n)): round(s, 4) for o, n, s in own} for p, own in given.items()}
        self._decide("odds", "members changed" if changed else f"win rates moved shares by {moved:.2f}", odds=odds)
        return True

    def measured(self, pairs: Pairs | Profiles) -> bool:
        """The odds are those of all games that members are to play; always, where they do not wait for them."""
        return not self.scheme.waits or not (pairs.wanting or self._joined or self._roughly)

    def alarms(self) -> list[str]:
        """What players forgot since the last look."""
        lines = []
        for player, member in self._forgetting.look(self.standings):
            best, now = self._forgetting.forgotten[player, member]
            name, of = self.standings.players[player], self.standings.name(member)
            self._decide("forgot", f"at least {best:.2f} before, at most {now:.2f} now", player=name, number=member[1])
            lines.append(f"{name} forgets: against {of} it won {best:.2f} or more, and now {now:.2f} at most")
        return lines

    # ---------------------------------------------------------------- numbers

    def metrics(self) -> dict[str, Metric]:
        """Where the league stands, for a row."""
        standings, found = self.standings, {}
        found["league/members"] = float(len(standings.held))
        found["league/matches"] = float(self.matches)
        found["league/forgotten"] = float(len(self._forgetting.forgotten))
        ratings = standings.ratings()
        for number, player in enumerate(standings.players):
            label = "league" if len(standings.players) == 1 else f"league/{player}"
            found[f"{label}/rating"] = float(ratings.points[number])
            found[f"{label}/rating_error"] = float(SURE * ratings.errors[number])
            known = [(standings.win_rate(number, (o, n))[0], s) for o, n, s in self.given.get(player, []) if n != LIVE]
            if known:
                found[f"{label}/win_rate"] = sum(r * s for r, s in known) / sum(s for _, s in known)
            games = sum(self._met[number].values())
            found |= {f"{label}/share/{name}": count / games for name, count in self._met[number].items()}
            self._met[number].clear()
        return {name: Last(value) for name, value in found.items()}


def _given(shares: Shares) -> list[list[Any]]:
    return [[*member, share] for member, share in shares.items() if share > LEAST]


def _distance(first: list[list[Any]], second: list[list[Any]]) -> float:
    """The largest change of a share."""
    old, new = ({(o, n): share for o, n, share in given} for given in (second, first))
    return max((abs(new.get(key, 0.0) - old.get(key, 0.0)) for key in {*old, *new}), default=0.0)
