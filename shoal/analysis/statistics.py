"""What several runs say together: the interquartile mean, and how sure it is. Pure functions of numpy arrays.

The interquartile mean is that of Agarwal et al. 2021 ("Deep reinforcement learning at the edge of the statistical precipice"),
and of their library rliable: sort, omit the lowest and the highest `floor(n / 4)` values, take the mean of the rest. So
one bad seed of four or more moves it little, and it uses twice as many values as the median. Of fewer than four values nothing
is left out: it is the mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
"""Draws of a bootstrap. The ends of a 95 % interval are then within about half a percent of probability."""


def interquartile_mean(values: ArrayLike) -> Floats:
    """Of the last axis, [..., n] -> [...]."""
    array = np.sort(np.asarray(values, np.float64), axis=-1)
    count = array.shape[-1]
    cut = count // 4
    return np.asarray(array[..., cut : count - cut].mean(axis=-1))


def bootstrap_interval(
    strata: Sequence[ArrayLike], *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the interquartile mean of all values together, each stratum resampled within itself.

    A stratum is a set of runs that differ in nothing but chance: seeds of the same settings. A resample draws, with replacement,
    as many runs from each stratum as it has, so that none is crowded out. One value in all has no spread to see: NaN.
    """
    arrays = [np.asarray(stratum, np.float64) for stratum in strata]
    if sum(len(array) for array in arrays) < 2:
        return float("nan"), float("nan")
    random = np.random.default_rng(seed)
    drawn = [array[random.integers(len(array), size=(resamples, len(array)))] for array in arrays]
    return interval(interquartile_mean(np.concatenate(drawn, axis=1)), confidence)


def interval(draws: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Between which two values the middle `confidence` of all draws lie."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(np.asarray(draws, np.float64), [tail, 100 - tail])
    return float(low), float(high)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """How likely a run of ours is better than one of theirs, over all pairs; equal ones count half (Agarwal et al. 2021)."""
    difference = np.asarray(ours, np.float64)[:, None] - np.asarray(theirs, np.float64)[None, :]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def improvement_interval(
    ours: ArrayLike, theirs: ArrayLike, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of that probability, both sides resampled; NaN where one of them has a single run."""
    mine, others = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if min(len(mine), len(others)) < 2:
        return float("nan"), float("nan")
    random = np.random.default_rng(seed)
    left = mine[random.integers(len(mine), size=(resamples, len(mine)))]
    right = others[random.integers(len(others), size=(resamples, len(others)))]
    difference = left[:, :, None] - right[:, None, :]
    return interval((difference > 0).mean(axis=(1, 2)) + 0.5 * (difference == 0).mean(axis=(1, 2)), confidence)
