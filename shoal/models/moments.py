"""Statistics of normalisers that were gathered apart, as one: counts, means and variances in, the same out.

A normaliser is float64 `[1 + 2 * size]`: count, mean, variance, laid one behind the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def carry_over(here: Array, origin: Array, there: Array) -> Array:
    """What was gathered on the way from `origin` to `here`, added to `there`: Chan et al. (1979), backwards and forwards.

    Where nothing was gathered on one of the two ways, the other end is the answer, to the bit.
    """
    if np.array_equal(there, origin):
        return here.copy()
    if here[0] <= origin[0]:
        return there.copy()
    return _joined(there, _between(origin, here))


def _between(before: Array, after: Array) -> Array:
    """Of the rows that came between two states."""
    size = (len(after) - 1) // 2
    count = after[0] - before[0]
    mean_before, mean_after = before[1 : 1 + size], after[1 : 1 + size]
    mean = (after[0] * mean_after - before[0] * mean_before) / count
    spread = after[0] * after[1 + size :] - before[0] * before[1 + size :]
    spread -= before[0] * count / after[0] * (mean - mean_before) ** 2
    return np.concatenate([[count], mean, np.maximum(spread / count, 0.0)])


def _joined(one: Array, other: Array) -> Array:
    size = (len(one) - 1) // 2
    count = one[0] + other[0]
    shift = other[1 : 1 + size] - one[1 : 1 + size]
    mean = one[1 : 1 + size] + shift * other[0] / count
    spread = one[0] * one[1 + size :] + other[0] * other[1 + size :] + shift**2 * one[0] * other[0] / count
    return np.concatenate([[count], mean, spread / count])
