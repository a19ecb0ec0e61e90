"""Who meets whom in a league: drawn for an env copy when its episode begins, and written down when it ends.

Which player asks is fixed by the copy; which agents it plays and whom it meets are drawn by (seed, slot, episode) with the odds of
the newest order, each opponent by itself where there are several. Until the first order comes, players meet themselves.
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

    @property
    def parties(self) -> int:
        """Who earns something of their own: all agents where they are equal, else the players."""
        return sum(self.agents.values()) if self.equal else len(self.players)

    def opponents(self, asker: int) -> list[int | None]:
        """Of whom each opponent is a member: those of the other sides; of anybody, where agents are equal."""
        if self.equal:
            return [None] * (self.parties - 1)
        return [number for number in range(len(self.players)) if number != asker]

    def earned(self, episode: Episode, seats: Sequence[int], parties: Sequence[int]) -> list[float]:
        """What some parties earned, each on average over its agents: `seats` where agents are equal, else `parties` by number."""
        if self.equal:
            (returns,) = episode.returns.values()
            return [float(returns[seat]) for seat in seats]
        places = (self.places[self.players[party]] for party in parties)
        return [float(episode.returns[group][list(columns)].mean()) for group, columns in places]

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
        self._tables: dict[tuple[int, int | None], tuple[list[Member], Array]] = {}
        self._read, self._whole = -1, True

    def __call__(self, slot: int, episode: int) -> dict[str, Sequence[str]]:
        cast, row = self._cast, slot - self._first_slot
        asker = slot % len(cast.players)
        of_side, *chances = self._random.at(slot, episode).random(cast.parties).tolist()
        drawn = [self._draw(asker, of, chance) for of, chance in zip(cast.opponents(asker), chances, strict=True)]
        dealt, side = self._equal(row, asker, drawn, of_side) if cast.equal else (self._sided(row, asker, drawn), 0)
        self._met[row] = (asker, side, *(part for member in drawn for part in member), episode)
        return dealt

    def _equal(
        self, row: int, asker: int, drawn: list[Member], chance: float
    ) -> tuple[dict[str, Sequence[str]], int]:  # fmt: skip
        """One agent is the asker's, the others are its opponents'; who meets itself plays there too, and learns from it."""
        cast, player = self._cast, self._cast.players[asker]
        ((group, agents),) = cast.agents.items()
        side = min(int(chance * agents), agents - 1)
        own = (asker, LIVE)
        seated = [*drawn[:side], own, *drawn[side:]]
        self._codes[group][row] = [-1 if member == own else code_of(member) for member in seated]
        return {group: [player if member == own else cast.rivals[player] for member in seated]}, side

    def _sided(self, row: int, asker: int, drawn: list[Member]) -> dict[str, Sequence[str]]:
        """The asker plays its own agents; those of each other side are its opponent's."""
        cast, met = self._cast, {member[0]: code_of(member) for member in drawn}
        dealt = {group: [""] * agents for group, agents in cast.agents.items()}
        for name, (group, columns) in (*cast.places.items(), *cast.others.items()):
            rival = name != cast.players[asker] and name not in cast.others
            for column in columns:
                dealt[group][column] = cast.rivals[name] if rival else name
                self._codes[group][row, column] = met[cast.players.index(name)] if rival else -1
        return dict(dealt)

    def _draw(self, asker: int, of: int | None, chance: float) -> Member:
        """A member of a player, or of anybody."""
        if self._read != self._odds.number or not self._whole:
            self._read_odds()
        members, until = self._tables.get((asker, of), ([], np.zeros(0)))
        if not members:  # itself, or the other side as it learns
            return asker if of is None else of, LIVE
        return members[min(int(np.searchsorted(until, chance, side="right")), len(members) - 1)]

    def _read_odds(self) -> None:
        self._read, self._whole, self._tables = self._odds.number, True, {}
        for player, given in self._odds.given.items():
            found = [((each[0], each[1]), each[2]) for each in given if self._playable(player, (each[0], each[1]))]
            self._whole &= len(found) == len(given)
            asker = self._cast.players.index(player)
            for of in set(self._cast.opponents(asker)):
                own = [(member, share) for member, share in found if of is None or member[0] == of]
                if own:
                    until = np.cumsum([share for _, share in own])
                    self._tables[asker, of] = [member for member, _ in own], until / until[-1]

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


def records_of(episodes: Iterable[Episode], cast: Cast, copies: int) -> Array:
    """The matches among some episodes, a record for each opponent. `copies`: of each Env."""
    return np.array([record for each in episodes if each.match for record in _records(each, cast, copies)], MATCH)


def _records(episode: Episode, cast: Cast, copies: int) -> list[tuple[float, ...]]:
    asker, side, *met, number = episode.match
    seats = [side, *(seat for seat in range(cast.parties) if seat != side)]
    parties = [asker, *(party for party in range(len(cast.players)) if party != asker)]
    own, *others = cast.earned(episode, seats, parties)
    where = episode.round, episode.length, episode.producer * copies + episode.row, number
    return [
        (asker, opponent, side, 0, LIVE, member, *where, own, other)
        for opponent, member, other in zip(met[::2], met[1::2], others, strict=True)
    ]
