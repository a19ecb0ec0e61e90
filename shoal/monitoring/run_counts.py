"""What a run counts for those who watch it from outside: messages of workers in, totals since this launch out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shoal.api.metric import Metric

_NOT_FINITE = ("train/dropped_not_finite", "train/undone_rounds")
"""A message that holds one of these tells of a batch that was not finite."""


@dataclass
class UpdateTime:
    """Of the trainers of one policy."""

    count: int = 0
    seconds: float = 0.0


class RunCounts:
    """Only grows; another thread may read it at any time."""

    def __init__(self, policies: Iterable[str]) -> None:
        self.updates = {policy: UpdateTime() for policy in policies}
        self.restarts: Counter[str] = Counter()
        """Kind of worker -> how many were started again."""
        self.not_finite_batches = 0
        self.updated_at = self.saved_at = time.time()
        """When the newest version and the newest checkpoint were made; before the first, when the run was launched."""

    def told(self, metrics: Mapping[str, Metric]) -> None:
        """A worker has told its numbers."""
        self.not_finite_batches += any(name in metrics for name in _NOT_FINITE)

    def updated(self, policy: str, metrics: Mapping[str, Metric]) -> None:
        """A trainer has made a version."""
        own, train = self.updates[policy], metrics.get("time/train")
        own.seconds += train.value if train is not None else 0.0
        own.count += 1
        self.updated_at = time.time()
