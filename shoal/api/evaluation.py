"""What is evaluated beside training, and what comes of it: settings in, scores of one version out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

RESAMPLES = 2000
"""Of the bootstrap behind an interval."""
_AT_ONCE = 1_000_000
"""Numbers drawn at a time: memory stays small however many episodes there are."""


@dataclass(frozen=True)
class Scores:
    """Whole episodes. A return is summed over the agents of all policies that are evaluated."""

    returns: list[float]
    lengths: list[int]
    by_policy: dict[str, float] = field(default_factory=dict)
    """Policy -> mean return of an agent that it played; of every policy that played."""
    game: float | None = None
    """Mean return as the game itself states it (`Env.game_return`), of all its agents; None: there is only one."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Name -> mean over the episodes that gave it, of the environment's own numbers (`Episode.metrics`)."""

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
