"""Who meets whom in a league: drawn for an env copy when its episode begins, and written down when it ends.

Which player asks is fixed by the copy; which agents it plays and whom it meets are drawn by (seed, slot, episode) with the odds of
the newest order. Until the first one comes, players meet themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.api.env import Array, Episode
from shoal.api.league import LIVE, MATCH, Member
from shoal.api.program import Program
from shoal.base.seeding import Generators

Given = dict[str, list[list[Any]]]
"""Player -> those it may meet, as `SetOdds` has it."""


def code_of(member: Member) -> int:
    """A member as one number, for arrays; nobody is -1."""
    return member[0] << 32 | (member[1] + 1)


def member_of(code: int) -> Member:
    """The member that `code_of` was given."""
    return code >> 32, (code & 0xFFFFFFFF) - 1


@dataclass
class Odds:
    """As the last order gave them; the rollouts of an actor share them."""

    given: Given = field(default_factory=dict)
    number: int = 0
    """How often they were given."""

    def give(self, given: Given) -> None:
        """A new order came."""
        self.given, self.number = given, self.number + 1


@dataclass(frozen=True)
class Cast:
    """Who can play where."""

    players: tuple[str, ...]
    agents: dict[str, int]
    """Group -> how many it has."""
    rivals: dict[str, str]
    """Player -> the seat in which its members play; where all agents are equal it is the same for all."""
    places: dict[str, tuple[str, tuple[int, ...]]]
    """Player -> its group and its agents there. Where all agents are equal: any one of them."""
    others: dict[str, tuple[str, tuple[int, ...]]]
    """The same for those that are no players."""
    equal: bool
    """Any agent may be any player."""

    @classmethod
    def of(cls, program: Program) -> Cast:
        """That of a Program."""
        league = program.experiment.league
        assert league is not None
        rivals = {player: spec.name for spec in program.policies.values() for player in spec.members}
        places = {name: (spec.home, spec.columns) for name, spec in program.policies.items()}
        others = [name for name in places if name not in rivals and name not in rivals.values()]
        agents: dict[str, int] = {}
        for group, columns in places.values():
            agents[group] = max(agents.get(group, 0), 1 + max(columns))
        return cls(
            tuple(league.players), agents, rivals,
            {name: places[name] for name in league.players}, {name: places[name] for name in others},
            not program.experiment.agents,
        )  # fmt: skip


class Matchmaker:
    """An order of policies for each episode (see `Deal`), and the members that play in the seats of rivals.

    `available`: whether a member can be played; whoever cannot is not drawn.
    """

    def __init__(
        self, cast: Cast, odds: Odds, available: Callable[[Member], bool], copies: int, *, seed: int, first_slot: int
    ) -> None:
        self._cast, self._odds, self._available, self._first_slot = cast, odds, available, first_slot
        self._random = Generators(seed, "match")
        self._met: list[tuple[int, ...]] = [()] * copies
        self._codes = {group: np.full((copies, agents), -1, np.int64) for group, agents in cast.agents.items()}
        self._tables: dict[str, tuple[list[Member], Array]] = {}
        self._read, self._whole = -1, True
        self._seats = set(cast.rivals.values())

    def __call__(self, slot: int, episode: int) -> dict[str, Sequence[str]]:
        cast, row = self._cast, slot - self._first_slot
        asker = slot % len(cast.players)
        of_side, of_opponent = self._random.at(slot, episode).random(2).tolist()
        opponent = self._draw(asker, of_opponent)
        dealt, side = self._equal(asker, opponent, of_side) if cast.equal else (self._sided(asker), 0)
        self._met[row] = (asker, side, *opponent, episode)
        code, seats = code_of(opponent), self._seats
        for group, names in dealt.items():
            self._codes[group][row] = [code if name in seats else -1 for name in names]
        return dealt

    def _equal(self, asker: int, opponent: Member, chance: float) -> tuple[dict[str, Sequence[str]], int]:
        """One agent is the asker's, the others its opponent's; who meets itself plays all of them, and learns from all."""
        cast, player = self._cast, self._cast.players[asker]
        ((group, agents),) = cast.agents.items()
        side = min(int(chance * agents), agents - 1)
        other = player if opponent == (asker, LIVE) else cast.rivals[player]
        return {group: [player if place == side else other for place in range(agents)]}, side

    def _sided(self, asker: int) -> dict[str, Sequence[str]]:
        """The asker plays its own agents; those of the other side are its opponent's."""
        cast = self._cast
        dealt = {group: [""] * agents for group, agents in cast.agents.items()}
        for name, (group, columns) in (*cast.places.items(), *cast.others.items()):
            seat = name if name == cast.players[asker] or name in cast.others else cast.rivals[name]
            for column in columns:
                dealt[group][column] = seat
        return dict(dealt)

    def _draw(self, asker: int, chance: float) -> Member:
        if self._read != self._odds.number or not self._whole:
            self._read_odds()
        members, until = self._tables.get(self._cast.players[asker], ([], np.zeros(0)))
        if not members:
            return self._itself(asker)
        return members[min(int(np.searchsorted(until, chance, side="right")), len(members) - 1)]

    def _itself(self, asker: int) -> Member:
        """Whom it meets where there is nobody else: itself, or the other side as it learns."""
        return (asker if self._cast.equal else 1 - asker, LIVE)

    def _read_odds(self) -> None:
        self._read, self._whole, self._tables = self._odds.number, True, {}
        for player, given in self._odds.given.items():
            found = [((each[0], each[1]), each[2]) for each in given if self._playable(player, (each[0], each[1]))]
            self._whole &= len(found) == len(given)
            if found:
                until = np.cumsum([share for _, share in found])
                self._tables[player] = [member for member, _ in found], until / until[-1]

    def _playable(self, player: str, member: Member) -> bool:
        return member == (self._cast.players.index(player), LIVE) or self._available(member)

    def match(self, slot: int) -> list[int]:
        """What is being played in a copy: see `Episode.match`."""
        return list(self._met[slot - self._first_slot])

    def codes(self, group: str, columns: Sequence[int] | None) -> Array:
        """`[copies * agents]`: the member in each seat of a rival, -1 where none plays."""
        codes = self._codes[group] if columns is None else self._codes[group][:, list(columns)]
        return codes.reshape(-1)

    @property
    def in_use(self) -> set[Member]:
        """All that are met now, or may be next."""
        playing = {member_of(code) for codes in self._codes.values() for code in np.unique(codes).tolist() if code >= 0}
        return playing | {(each[0], each[1]) for given in self._odds.given.values() for each in given}


# ---------------------------------------------------------------- as records


def records_of(episodes: Iterable[Episode], players: Sequence[str], copies: int) -> Array:
    """The matches among some episodes. `copies`: of each Env."""
    found = [_record(episode, players, copies) for episode in episodes if episode.match]
    return np.array(found, MATCH)


def _record(episode: Episode, players: Sequence[str], copies: int) -> tuple[float, ...]:
    asker, side, opponent, member, number = episode.match
    own = episode.played[players[asker]]
    others = [returns for name, returns in episode.played.items() if name not in players and returns.size]
    earned, against = float(own.mean()), float(np.concatenate(others).mean()) if others else float(own.mean())
    slot = episode.producer * copies + episode.row
    return (asker, opponent, side, 0, LIVE, member, episode.round, episode.length, slot, number, earned, against)
