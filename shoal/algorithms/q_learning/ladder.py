"""A ladder of exploration rates over all lanes of a run (Horgan et al. 2018, Ape-X): some try nearly everything, some little."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from shoal.api.explorer import Explorer
from shoal.api.metric import Mean, Metric
from shoal.base.config import Config, Schedule, value_at
from shoal.base.tree import Tree

QUARTERS = 4
"""Returns are told by quarters of the ladder: the first explores most."""


class Ladder(Config):
    """A rate of its own for every lane: lane i of N explores with chance `base ** (1 + alpha * i / (N - 1))`."""

    base: float = Field(0.4, gt=0, le=1)
    """Chance of a random action in lane 0, the greatest of all."""
    alpha: float = Field(7.0, ge=0)
    """How far the ladder reaches down: the last lane's chance is `base ** (1 + alpha)`."""


def rates(ladder: Ladder, lanes: np.ndarray, count: int) -> np.ndarray:
    """Of the lanes with these run-wide numbers, out of `count` -> float64. Whoever plays a lane, and when, its rate is the same."""
    return ladder.base ** (1 + ladder.alpha * lanes / max(count - 1, 1))


def rate_at(setting: float | Schedule | Ladder, step: int, horizon: int | None, count: int) -> float:
    """The one rate of all lanes, or the mean of a ladder."""
    if isinstance(setting, Ladder):
        return float(rates(setting, np.arange(count), count).mean())
    return value_at(setting, step, horizon)


class LadderExplorer(Explorer):
    """Gives every lane its rate, in every episode the same."""

    def __init__(self, ladder: Ladder, lanes: np.ndarray, count: int) -> None:
        self._rates = rates(ladder, lanes, count).astype(np.float32)[:, None]
        self._quarters = lanes * QUARTERS // max(count, 1)
        self._returns: dict[int, list[float]] = {}

    def begin(self, rows: np.ndarray) -> np.ndarray:
        return self._rates[rows]

    def shape(self, extras: dict[str, np.ndarray], knobs: np.ndarray, acting: np.ndarray) -> dict[str, np.ndarray]:
        return {**extras, "epsilon": knobs[:, 0]}

    def end(self, rows: np.ndarray, returns: np.ndarray) -> None:
        for quarter, earned in zip(self._quarters[rows].tolist(), returns.tolist(), strict=True):
            self._returns.setdefault(quarter, []).append(earned)

    def snapshot(self) -> Tree:
        return {}  # rates follow from the lanes; what waits to be told was told with the fragment

    def restore(self, tree: Tree) -> None:
        return

    def metrics(self) -> dict[str, Metric]:
        told: dict[str, Metric] = {
            f"ladder/{quarter + 1}": Mean(sum(earned) / len(earned), len(earned))
            for quarter, earned in self._returns.items()
        }
        self._returns.clear()
        return told
