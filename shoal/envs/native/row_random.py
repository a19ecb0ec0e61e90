"""Random numbers for many copies in one call. Each copy's follow from (seed, copy, episode, time), not from its neighbours."""

from __future__ import annotations

import math

import numpy as np

from shoal.api.env import Array
from shoal.base.seeding import purpose_key

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


class RowRandom:
    """One stream of numbers per row, drawn side by side: the row is the last axis of every answer.

    The streams are SplitMix64 (Steele, Lea and Flood 2014), each started from a hash of its row's key. Unlike a numpy
    generator per row they cost no Python per row.
    """

    def __init__(self, seed: int, slots: Array, episodes: Array, times: Array) -> None:
        key = np.full(len(slots), (purpose_key("native") + seed) & _MASK, np.uint64)
        for part in (slots, episodes, times):
            key = _mix(key) + part.astype(np.uint64)
        self._stream = _mix(key)
        self._drawn = 0

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        """float64 `[*shape, rows]` in [low, high)."""
        count = math.prod(shape)
        place = np.arange(self._drawn, self._drawn + count, dtype=np.uint64)
        self._drawn += count
        bits = _mix(self._stream + place[:, None] * _GOLDEN)
        share = (bits >> np.uint64(11)) * 2.0**-53
        return (low + (high - low) * share).reshape(*shape, -1)

    def integers(self, high: int, *shape: int) -> Array:
        """int64 `[*shape, rows]` in 0 ... high - 1."""
        return self.uniform(0, high, *shape).astype(np.int64)


def _mix(bits: Array) -> Array:
    bits = bits + _GOLDEN
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
