"""Statistics over the rows of all replicas of a trainer.

Replicas differ in rows, so sums and counts travel, never means. `mean` is `Learner.mean`: without replicas it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from shoal.algorithms.rows import taken

Mean = Callable[[Tensor], Tensor]


def mean_of_rows(columns: list[Tensor], mean: Mean) -> Tensor:
    """Columns of one length, `[N]` each -> the mean of each over all replicas; NaN where nobody has a row."""
    count = torch.full((), float(len(columns[0])), device=columns[0].device)
    sums = torch.stack([count, *(column.sum() for column in columns)])
    count, *totals = mean(sums)
    return torch.stack(totals) / count


def normalised(advantage: Tensor, places: Tensor, mean: Mean) -> Tensor:
    """Zero mean and unit spread over the valid rows of all replicas. `[R, B]`, and the places of those rows."""
    rows = taken(advantage, places)
    average, square = mean_of_rows([rows, rows.square()], mean)
    return (advantage - average) / ((square - average.square()).clamp(min=0.0).sqrt() + 1e-8)
