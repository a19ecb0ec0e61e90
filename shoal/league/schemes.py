"""Whom a player of a league meets, and how often: one class per scheme, and the roles of players as data."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from shoal.api.env import Array
from shoal.api.league import LIVE, LeagueConfig, Member
from shoal.base.config import Config, Target
from shoal.base.errors import InputError
from shoal.base.table import Table, did_you_mean, import_target
from shoal.league import meta_solvers
from shoal.league.meta_solvers import MetaSolver
from shoal.league.standings import Standings

Shares = dict[Member, float]


@dataclass(frozen=True)
class Role:
    """How a player shares out its games, and whether it begins anew once it was frozen. Vinyals et al. 2019."""

    live: float = 0.0
    """Against players as they learn: a main player itself, an exploiter of it the main players."""
    members: float = 0.0
    """Against members of everyone."""
    lost: float = 0.0
    """Against those of them that it loses to, and those of exploiters."""
    reset: float = 0.0
    """How often it begins anew."""


ROLES = {
    "main": Role(live=0.35, members=0.5, lost=0.15),
    "main_exploiter": Role(live=1.0, reset=1.0),
    "league_exploiter": Role(members=1.0, reset=0.25),
}
HOPELESS = 0.2
"""An exploiter that wins less than this against a main player learns against its members first."""
ENOUGH = 10.0
"""Games that say whether that is so."""


class NoSettings(Config):
    """A scheme that has none."""


class PfspConfig(Config):
    """How the chance to win becomes a share."""

    curve: Literal["hard", "even", "variance"] = "hard"
    """`hard`: who beats it most; `even`: all alike that it does not beat; `variance`: who is as strong as it is."""


class PsroConfig(Config):
    """How the mixture is found, and where the answer to it begins."""

    solver: Target = "nash"
    """`nash`, `fictitious_play`, `regret_matching`, `replicator`, `alpha_rank`, `uniform`, or your own `module:function`."""
    start: Literal["warm", "cold"] = "warm"
    """The next answer begins as the last one ended, or anew."""
    explore: float = Field(0.0, ge=0, lt=1)
    """Share of the games in which any member is met, so that one the mixture has no use for is not forgotten."""


class Scheme(ABC):
    """Answers with shares by opponent, which need not add up to 1."""

    Config: type[Config] = NoSettings
    anew: bool = False
    """Main players, too, begin anew once they were frozen."""
    waits: bool = False
    """Shares change when all members have met, not with each game of a player that learns."""

    def __init__(self, config: Any) -> None:
        return

    @abstractmethod
    def shares(self, standings: Standings, player: int) -> Shares:
        """Whom a player meets."""


class Latest(Scheme):
    """Everyone meets itself as it learns: plain self-play."""

    def shares(self, standings: Standings, player: int) -> Shares:
        return _live(standings, player)


class Uniform(Scheme):
    """All members equally often: fictitious play."""

    def shares(self, standings: Standings, player: int) -> Shares:
        return dict.fromkeys(standings.opponents(player), 1.0)


class Pfsp(Scheme):
    """Prioritised fictitious self-play: those that a player does not beat more often. Win rates are those of a posterior."""

    Config = PfspConfig

    def __init__(self, config: PfspConfig) -> None:
        self._curve: str = config.curve

    def shares(self, standings: Standings, player: int) -> Shares:
        role, everyone = ROLES[standings.roles[player]], standings.opponents(player)
        live, rest = _live(standings, player), everyone
        if standings.roles[player] == "main_exploiter":
            known = [standings.win_rate(player, member) for member in live]
            if known and all(games >= ENOUGH and rate < HOPELESS for rate, games in known):
                rest = [member for member in everyone if standings.roles[member[0]] == "main"]
                return prioritised(standings, player, rest, "variance")
        parts = [(role.live, normalised(live)), (role.members, prioritised(standings, player, rest, self._curve))]
        if role.lost:
            lost = [member for member in everyone if _beats(standings, player, member)]
            parts.append((role.lost, prioritised(standings, player, lost, "hard")))
        found: Shares = {}
        for share, part in parts:
            for member, odds in part.items() if share else ():
                found[member] = found.get(member, 0.0) + share * odds
        return found


class Psro(Scheme):
    """Policy-space response oracles: a player answers a mixture of all members, computed from what they earn."""

    Config = PsroConfig
    waits = True

    def __init__(self, config: PsroConfig) -> None:
        self._solver, self.solver, self._explore = solver_of(config.solver), config.solver, config.explore
        self.anew = config.start == "cold"
        self._known: list[tuple[tuple[int, ...], bytes]] = []
        self._found: list[Array] = []

    def shares(self, standings: Standings, player: int) -> Shares:
        opponents = standings.opponents(player)
        if not opponents:
            return {}
        found, even = self.mixture(standings), self._explore / len(opponents)
        sides = [(standings.held, found[0])] if standings.equal else list(zip(standings.by_side(), found, strict=True))
        shares = {
            member: float(share) for members, mixed in sides for member, share in zip(members, mixed, strict=True)
        }
        return {member: shares[member] * (1 - self._explore) + even for member in opponents}

    def mixture(self, standings: Standings) -> list[Array]:
        """Of all members, or of those of each side."""
        if standings.joint.general:
            tables = standings.joint.tables(standings.by_side())
            if self.solver == "alpha_rank" and len(tables) == 2:
                return [meta_solvers.alpha_rank_symmetric(tables[0])]
            found = self._solved(tables)
            return [sum(found[1:], found[0]) / len(found)] if standings.equal else found
        if standings.equal:
            earned = standings.payoffs.means(standings.held, standings.held)
            if self.solver == "alpha_rank":
                return [meta_solvers.alpha_rank_symmetric(earned)]
            found = self._solver([earned, earned.T])
            return [(found[0] + found[1]) / 2]
        first, second = standings.of(0), standings.of(1)
        return self._solved([standings.payoffs.means(first, second), standings.payoffs.means(second, first).T])

    def _solved(self, tables: list[Array]) -> list[Array]:
        """Once for all sides, which ask one after the other."""
        known = [(table.shape, table.tobytes()) for table in tables]
        if known != self._known:
            self._known, self._found = known, self._solver(tables)
        return self._found


SCHEMES = Table(
    "league.match",
    {
        "latest": "shoal.league.schemes:Latest",
        "uniform": "shoal.league.schemes:Uniform",
        "pfsp": "shoal.league.schemes:Pfsp",
        "psro": "shoal.league.schemes:Psro",
    },
)
SOLVERS: dict[str, MetaSolver] = {
    "nash": meta_solvers.nash,
    "fictitious_play": meta_solvers.fictitious_play,
    "regret_matching": meta_solvers.regret_matching,
    "replicator": meta_solvers.replicator,
    "alpha_rank": meta_solvers.alpha_rank,
    "uniform": meta_solvers.uniform,
}


def scheme_of(league: LeagueConfig) -> Scheme:
    """The scheme that a league names, with its settings."""
    cls = SCHEMES.load(league.match.name)
    if not (isinstance(cls, type) and issubclass(cls, Scheme)):
        raise InputError(f"league.match.name = '{league.match.name}' is no shoal.league.schemes:Scheme")
    config = cls.Config.parse(league.match.rest, at="league.match")
    if cls is not Pfsp and set(league.players.values()) != {"main"}:
        raise InputError(
            f"league.match.name = '{league.match.name}': exploiters are for pfsp; give all players the role main"
        )
    if cls is Psro and not league.games:
        raise InputError(
            "league.games = 0: psro mixes members by what they earn against each other; let them play some"
        )
    scheme: Scheme = cls(config)
    return scheme


def check_parties(league: LeagueConfig, parties: int) -> None:
    """Whether the scheme suits so many that play a match."""
    scheme = scheme_of(league)
    if parties > 2 and isinstance(scheme, Psro) and scheme.solver == "nash":
        raise InputError(
            f"league.match.solver = 'nash' is for two, and here {parties} play: choose replicator, regret_matching, "
            "fictitious_play, alpha_rank or uniform"
        )


def solver_of(name: str) -> MetaSolver:
    """One of ours, or a user's own."""
    if ":" in name:
        found: MetaSolver = import_target(name, key="league.match.solver")
        return found
    if name not in SOLVERS:
        raise InputError(
            f"league.match.solver = '{name}' is not known; {did_you_mean(name, SOLVERS)} (or your own module:function)"
        )
    if name == "nash" and importlib.util.find_spec("scipy") is None:
        raise InputError(
            "league.match.solver = 'nash' needs scipy: pip install 'shoal[population]', or choose regret_matching"
        )
    return SOLVERS[name]


def prioritised(standings: Standings, player: int, members: Iterable[Member], curve: str) -> Shares:
    """Of some members, by how likely the player beats them; all alike, where it beats everyone so surely that nothing is left."""
    members = list(members)
    rates = np.array([standings.win_rate(player, member)[0] for member in members])
    weights = {"hard": (1 - rates) ** 2, "even": np.minimum(0.5, 1 - rates), "variance": rates * (1 - rates)}[curve]
    if weights.sum() < 1e-6:
        weights = np.ones(len(members))
    return normalised(dict(zip(members, weights.tolist(), strict=True)))


def normalised(shares: Shares) -> Shares:
    """So that they add up to 1."""
    total = sum(shares.values())
    return {member: share / total for member, share in shares.items()} if total > 0 else {}


def _live(standings: Standings, player: int) -> Shares:
    """Those that learn: a main player meets itself, an exploiter the main players; where sides differ, the other sides."""
    if not standings.equal:
        return {(other, LIVE): 1.0 for other in range(len(standings.players)) if other != player}
    if standings.roles[player] == "main":
        return {(player, LIVE): 1.0}
    return {(number, LIVE): 1.0 for number, role in enumerate(standings.roles) if role == "main"}


def _beats(standings: Standings, player: int, member: Member) -> bool:
    """An exploiter of the main players, or one that wins more than half."""
    return standings.roles[member[0]] == "main_exploiter" or standings.win_rate(player, member)[0] < 0.5
