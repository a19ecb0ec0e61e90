"""Values of unit scale, whatever the returns (Yu et al. 2022, section 5.1)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from shoal.api.algorithm import NonFiniteError
from shoal.models.normaliser import Moments

LEAST = 1e-2
"""Variance that is divided by at least: equal returns are not blown up."""


class ValueScale(nn.Module):
    """Mean and spread of the value targets seen so far. Part of the policy, so that they are saved with it."""

    def __init__(self) -> None:
        super().__init__()
        self.moments = Moments(())

    def forward(self, value: Tensor) -> Tensor:
        """Returns -> what the network should say."""
        return (value - self.moments.mean) / self._spread

    def restored(self, said: Tensor) -> Tensor:
        """What the network says -> returns."""
        return said * self._spread + self.moments.mean

    @property
    def _spread(self) -> Tensor:
        return self.moments.variance.clamp(min=LEAST).sqrt()

    @torch.no_grad()
    def update(self, target: Tensor, places: Tensor, mean: Callable[[Tensor], Tensor]) -> None:
        """Take in the rows of `[R, B]` at these places; `mean` averages over the replicas of the trainer."""
        sums = mean(self.moments.sums(target.flatten().index_select(0, places)))
        if not sums.isfinite().all():
            raise NonFiniteError("value targets: one is NaN or infinite")
        self.moments.merge(sums)
