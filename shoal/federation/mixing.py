"""How the parent's weights follow from what children give: pure functions of vectors, in float64.

g are the parent's weights, x those that a child arrived at, b those that it began from; x - b is its delta. A mean over children is

    g' = (1 - sum s) g + sum s x + sum s (g - b),    s = lr * weight

which is g + lr * sum weight * (x - b), written so that one child with s = 1 that began from g gives x itself, to the bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.api.federation import MixingConfig

Vector = NDArray[np.float32]
Array = NDArray[np.float64]

RECENT = 20
"""Contributions whose lengths say what is usual."""


@dataclass(frozen=True)
class Given:
    """What one child gives in one round."""

    child: str
    weights: Vector
    """x"""
    base: Vector
    """b"""
    samples: int
    """Environment steps behind it."""
    staleness: int = 0
    """Versions that the parent has made since b."""

    @property
    def delta(self) -> Array:
        """x - b."""
        return self.weights.astype(np.float64) - self.base


def staleness_weight(staleness: int, power: float) -> float:
    """(1 + staleness) ** -power, as in FedAsync (Xie et al. 2019)."""
    return float((1 + staleness) ** -power)


def shares(given: Sequence[Given], active: dict[str, int], power: float, *, by_samples: bool) -> list[float]:
    """The weight of each: its part of what all active children do in a round, less if it is stale.

    `active`: child -> samples of its newest round, of all who take part. If all of them give, and nobody is stale, the sum is 1.
    """
    counts = {**active, **{one.child: one.samples for one in given}}
    if not by_samples:
        counts = dict.fromkeys(counts, 1)
    total = sum(counts.values())
    return [
        (counts[one.child] / total if total else 1 / len(counts)) * staleness_weight(one.staleness, power)
        for one in given
    ]


def fair_samples(child: str, samples: int, active: dict[str, int]) -> int:
    """What a child says that it has done, at most three times what the others do: nobody can make itself count for all."""
    others = [count for name, count in active.items() if name != child and count]
    return samples if not others else min(samples, 3 * int(np.median(others)))


def coordinate_median(deltas: Sequence[Array]) -> Array:
    """`[n, size]` -> `[size]` (Yin et al. 2018)."""
    return np.median(np.stack(deltas), axis=0)


def trimmed_mean(deltas: Sequence[Array], trim: float) -> Array:
    """The mean in each place without the largest and smallest `trim` of all; of three or more, at least one each."""
    stacked = np.sort(np.stack(deltas), axis=0)
    count = len(deltas)
    cut = min(max(int(trim * count), 1), (count - 1) // 2) if count >= 3 else 0
    return stacked[cut : count - cut].mean(0)


class NormClip:
    """Deltas that are longer than `times` what is usual are shortened to that; usual is the median of the newest."""

    def __init__(self, times: float) -> None:
        self._times = times
        self._lengths: deque[float] = deque(maxlen=RECENT)

    def clip(self, given: Sequence[Given]) -> list[Given]:
        """What a mix begins with. Those that come together count among the usual."""
        lengths = [float(np.linalg.norm(one.delta)) for one in given]
        limit = self._times * float(np.median([*self._lengths, *lengths]))
        self._lengths.extend(min(length, limit) for length in lengths)
        return [
            one if length <= limit else _scaled(one, limit / length) for one, length in zip(given, lengths, strict=True)
        ]

    def state(self) -> list[float]:
        """To go on from."""
        return list(self._lengths)

    def restore(self, lengths: Sequence[float]) -> None:
        """Go on from `state`."""
        self._lengths = deque(map(float, lengths), maxlen=RECENT)


def _scaled(given: Given, factor: float) -> Given:
    return replace(given, weights=(given.base + factor * given.delta).astype(np.float32))


class Mixer:
    """The outer optimiser: one mix after the other."""

    def __init__(self, config: MixingConfig, size: int) -> None:
        self._config = config
        self._clip = NormClip(config.clip) if config.clip is not None else None
        self._momentum: Array = np.zeros(size)
        self._since: Array = np.zeros(size)
        self._mixes = 0

    def mix(self, weights: Vector, given: Sequence[Given], active: dict[str, int]) -> Vector:
        """g' out of g and what was given. `active`: see `shares`."""
        config = self._config
        if self._clip is not None:
            given = self._clip.clip(given)
        weighted = shares(given, active, config.staleness, by_samples=config.weigh == "samples")
        if config.rule == "mean":
            mixed, delta = self._mean(weights, given, weighted)
        else:
            deltas = [one.delta for one in given]
            typical = coordinate_median(deltas) if config.rule == "median" else trimmed_mean(deltas, config.trim)
            delta = min(1.0, sum(weighted)) * typical
            mixed = weights + config.lr * delta
        return (mixed + self._push(delta)).astype(np.float32) if config.momentum else mixed.astype(np.float32)

    def _mean(self, weights: Vector, given: Sequence[Given], weighted: Sequence[float]) -> tuple[Array, Array]:
        lr = self._config.lr
        mixed = (1 - lr * sum(weighted)) * weights.astype(np.float64)
        delta = np.zeros(len(weights))
        for one, weight in zip(given, weighted, strict=True):
            mixed += lr * weight * one.weights.astype(np.float64)
            mixed += lr * weight * (weights.astype(np.float64) - one.base)
            delta += weight * one.delta
        return mixed, delta

    def _push(self, delta: Array) -> Array:
        """Nesterov's momentum, every `delay` mixes: at 1 as in DiLoCo; with more it is the delayed one of Liu et al. 2024."""
        config = self._config
        self._since += delta
        self._mixes += 1
        if self._mixes % config.delay:
            return np.zeros(len(delta))
        self._momentum = config.momentum * self._momentum + self._since
        self._since = np.zeros(len(delta))
        return config.lr * config.momentum * self._momentum

    def state(self) -> dict[str, Any]:
        """To go on from."""
        lengths = np.array(self._clip.state() if self._clip else [], np.float64)
        return {"momentum": self._momentum, "since": self._since, "mixes": self._mixes, "lengths": lengths}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._momentum, self._since = np.array(state["momentum"]), np.array(state["since"])
        self._mixes = int(state["mixes"])
        if self._clip is not None:
            self._clip.restore(state["lengths"])
