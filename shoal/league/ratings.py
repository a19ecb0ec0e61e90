"""How strong players are, from the results of their games: Bradley-Terry with intervals, on Elo's scale.

Ratings are computed from all results together, so their order does not matter, and players that beat each other in a circle are
equally strong. A draw is half a win for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.api.env import Array

ELO = 400.0 / math.log(10.0)
"""Points by which a player is rated higher whose odds are e times as good."""
SURE = 1.959964
"""Standard errors on either side of a 95 % interval."""
PRIOR = 0.5
"""Draws that everyone is thought to have played against somebody of average strength: ratings stay finite where one won all."""


@dataclass(frozen=True)
class Ratings:
    """Points by player, on average 0, and how uncertain they are."""

    points: Array
    covariance: Array

    @property
    def errors(self) -> Array:
        """Standard errors."""
        found: Array = np.sqrt(np.diag(self.covariance))
        return found

    def interval(self, player: int) -> tuple[float, float]:
        """95 %."""
        middle, wide = self.points[player], SURE * self.errors[player]
        return float(middle - wide), float(middle + wide)

    def separated(self, first: int, second: int, sure: float = SURE) -> bool:
        """Whether the better of two is known, usually with 95 %: by the error of their difference, less than that of both."""
        spread = self.covariance[first, first] + self.covariance[second, second] - 2 * self.covariance[first, second]
        return bool(abs(self.points[first] - self.points[second]) > sure * math.sqrt(max(spread, 0.0)))


def rate(wins: Array, draws: Array | None = None, prior: float = PRIOR) -> Ratings:
    """`wins[i, j]`: games that i won against j; `draws` likewise, symmetric. Newton's method on the likelihood."""
    scores = np.asarray(wins, np.float64)
    if draws is not None:
        scores = scores + 0.5 * np.asarray(draws, np.float64)
    games = scores + scores.T
    count = len(scores)
    strength = np.zeros(count)
    for _ in range(100):
        chance = _chance(strength[:, None] - strength[None])
        alone = _chance(strength)
        slope = scores.sum(axis=1) - (games * chance).sum(axis=1) + prior * (0.5 - alone)
        spread = games * chance * (1 - chance)
        matrix = np.diag(spread.sum(axis=1) + prior * alone * (1 - alone) + 1e-12) - spread
        change = np.clip(np.linalg.solve(matrix, slope), -3.0, 3.0)
        strength += change
        if np.abs(change).max(initial=0.0) < 1e-10:
            break
    centre = np.eye(count) - 1.0 / count
    covariance = centre @ np.linalg.inv(matrix) @ centre
    return Ratings(ELO * (strength - strength.mean()), ELO**2 * covariance)


def _chance(difference: Array) -> Array:
    found: Array = 0.5 * (1.0 + np.tanh(0.5 * difference))
    return found


def expected(difference: float) -> float:
    """The share of points of a player rated so much higher."""
    return float(_chance(np.asarray(difference / ELO)))


def win_rate(wins: float, draws: float, losses: float, sure: float = SURE) -> tuple[float, float, float]:
    """The share of points, and a 95 % interval (Wilson's, in which a draw is half a win and half a loss)."""
    games = wins + draws + losses
    if not games:
        return 0.5, 0.0, 1.0
    share, z = (wins + 0.5 * draws) / games, sure
    middle = (share + z * z / (2 * games)) / (1 + z * z / games)
    wide = z / (1 + z * z / games) * math.sqrt(share * (1 - share) / games + z * z / (4 * games * games))
    return share, max(0.0, middle - wide), min(1.0, middle + wide)
