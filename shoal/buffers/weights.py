"""What each sequence of a batch counts, so that drawing some more often does no harm (Schaul et al. 2016, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.api.algorithm import Priorities
from shoal.base.config import value_at


def batch_weights(parts: Sequence[tuple[np.ndarray, int]], beta: float) -> np.ndarray:
    """float32 `[B]`: (N P(i)) ** -beta, divided by the greatest of the batch.

    A batch is made of parts, each drawn from a shard of its own: chances within that shard, `[k_s]`, and how many sequences the
    shard holds. N are those of all shards, and as k_s of k sequences come from shard s, P(i) is the chance there times k_s / k.
    """
    held, drawn = sum(filled for _, filled in parts), sum(len(chances) for chances, _ in parts)
    expected = np.concatenate([chances * (held * len(chances) / drawn) for chances, _ in parts])
    weights = expected**-beta
    return (weights / weights.max()).astype(np.float32)


def beta_at(priorities: Priorities, steps: int) -> float:
    """Its value once so many environment steps are done."""
    return value_at(priorities.beta, steps, priorities.horizon)
