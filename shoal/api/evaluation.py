"""What is evaluated beside training, and what comes of it: settings in, scores of one version out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

RESAMPLES = 2000
"""Of the bootstrap behind an interval."""
_AT_ONCE = 1_000_000
"""Numbers drawn at a time: memory stays small however many episodes there are."""


SELF = "self"
"""The opponent that is the evaluated version itself: what is won against it counts for no score."""


@dataclass(frozen=True)
class Match:
    """One game against an opponent: who played which agent, and what every agent earned."""

    opponent: str
    """As it was named: `random`, `past`, a run, a function."""
    players: dict[str, str]
    """Agent -> the policy that is evaluated, or the player: `past@40` is one of those that `past` stands for."""
    returns: dict[str, float]
    """Agent -> return."""
    own: list[str]
    """The agents of the side that is evaluated."""

    @property
    def result(self) -> Literal["win", "draw", "loss"]:
        """By the mean return of an agent of either side: the higher one wins. In a zero-sum game it is the side above 0."""
        others = self.returns.keys() - set(self.own)
        own, other = (math.fsum(self.returns[agent] for agent in side) / len(side) for side in (self.own, others))
        if math.isclose(own, other, abs_tol=1e-9):
            return "draw"
        return "win" if own > other else "loss"

    @property
    def total(self) -> float:
        """What the evaluated side earned."""
        return math.fsum(self.returns[agent] for agent in self.own)


@dataclass(frozen=True)
class Tally:
    """What came of some matches."""

    wins: int
    draws: int
    losses: int
    mean_return: float
    """Of the evaluated side."""

    @classmethod
    def of(cls, matches: list[Match]) -> Tally:
        """Count them."""
        results = [match.result for match in matches]
        mean = math.fsum(match.total for match in matches) / len(matches)
        return cls(results.count("win"), results.count("draw"), results.count("loss"), mean)

    @property
    def matches(self) -> int:
        """All of them."""
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """Share of wins."""
        return self.wins / self.matches

    @property
    def interval(self) -> tuple[float, float]:
        """Of the win rate, 95 %: see `wilson_interval`."""
        return wilson_interval(self.wins, self.matches)

    def facts(self) -> dict[str, float]:
        """All of it, by name."""
        low, high = self.interval
        counts = {"wins": self.wins, "draws": self.draws, "losses": self.losses}
        return {**counts, "win_rate": self.win_rate, "ci_low": low, "ci_high": high, "mean_return": self.mean_return}


@dataclass(frozen=True)
class Scores:
    """Whole episodes. A return is summed over the agents of all policies that are evaluated.

    Where opponents are named it is that of the evaluated side, over all of them but `self`.
    """

    returns: list[float]
    """Of every episode."""
    lengths: list[int]
    """Of every episode, in environment steps."""
    by_policy: dict[str, float] = field(default_factory=dict)
    """Policy -> mean return of an agent that it played; of every policy that played."""
    game: float | None = None
    """Mean return as the game itself states it (`Env.game_return`), of all its agents; None: there is only one."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Name -> mean over the episodes that gave it, of the environment's own numbers (`Episode.metrics`)."""
    matches: list[Match] = field(default_factory=list)
    """Where opponents are named: every game, against `self` too."""
    repeated: bool = False
    """Who met played the same game again and again: neither the environment nor the players draw at random."""
    cancels: bool = False
    """Everyone was played by the evaluated version, and in every episode the returns added up to 0: the score says nothing."""

    @property
    def opponents(self) -> dict[str, list[Match]]:
        """Opponent -> the games against it."""
        found: dict[str, list[Match]] = {}
        for match in self.matches:
            found.setdefault(match.opponent, []).append(match)
        return found

    @property
    def tallies(self) -> dict[str, Tally]:
        """Opponent -> what came of the games against it."""
        return {opponent: Tally.of(matches) for opponent, matches in self.opponents.items()}

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Spread of the returns."""
        return float(np.std(self.returns))

    @property
    def length(self) -> float:
        """Mean length."""
        return float(np.mean(self.lengths))

    @property
    def interval(self) -> tuple[float, float]:
        """Of the mean return, 95 %: see `bootstrap_interval`."""
        return bootstrap_interval(self.returns)


@dataclass(frozen=True)
class Evaluation:
    """One version, evaluated: every episode in it was played by this version alone, from its first step to its last."""

    version: int
    steps: int
    """Environment steps of training behind the version."""
    scores: Scores
    seconds: float
    """How long it took, loading and confirmation included."""
    confirmation: Scores | None = None
    """Of a version that reached `stop.return`: as many episodes as `stop.episodes`, on fresh seeds."""
    video: str | None = None
    """The file in `videos/` that shows one more episode, if it was filmed."""
    stage: int = 0
    """The stage of the curriculum that it was saved and played in."""


def wilson_interval(wins: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Score interval of a share (Wilson 1927), 95 % by default: holds where all or none were won, and stays within [0, 1]."""
    rate, spread = wins / trials, z * z / trials
    middle = (rate + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(rate * (1 - rate) / trials + spread / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap_interval(values: list[float], level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap of the mean (Efron 1979): between which the means of samples drawn anew from `values` lie.

    It assumes nothing about how returns are spread, which a t interval does. Equal values give equal intervals.
    """
    data = np.asarray(values, np.float64)
    random = np.random.default_rng(len(data))
    means = np.empty(RESAMPLES)
    rows = max(1, _AT_ONCE // len(data))
    for first in range(0, RESAMPLES, rows):
        part = means[first : first + rows]
        part[:] = data[random.integers(0, len(data), (len(part), len(data)))].mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
