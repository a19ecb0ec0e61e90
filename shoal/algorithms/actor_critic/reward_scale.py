"""Rewards of unit scale, whatever the environment pays."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from shoal.algorithms.returns import discounted_sums
from shoal.algorithms.rows import places_of, taken
from shoal.api.fragment import Fragment


class RewardScale(nn.Module):
    """Divides rewards by the spread of their discounted sums, as seen so far. Part of the policy, so that it is saved with it."""

    mean: Tensor
    variance: Tensor
    count: Tensor
    sums: Tensor

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("variance", torch.ones((), dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(lanes))

    def forward(self, reward: Tensor) -> Tensor:
        """Scaled and kept within +-10."""
        return (reward / (self.variance.float().sqrt() + 1e-8)).clamp(-10.0, 10.0)

    def update(self, batch: Fragment, mean: Callable[[Tensor], Tensor], *, gamma: float) -> None:
        """Carry every lane's sum on through `batch`; `mean` averages over the replicas of the trainer."""
        carried = self.sums[batch.lanes]
        sums, last = discounted_sums(batch.reward, batch.first, batch.valid, carried, gamma=gamma)
        seen = taken(sums, places_of(batch.valid)).double()
        count = torch.full((), float(len(seen)), dtype=torch.float64, device=seen.device)
        moments = torch.stack([count, seen.sum(), seen.square().sum()])
        # Each replica knows its own lanes. All must know all: any of them may be the one that is saved.
        here = torch.zeros(2, len(self.sums), dtype=torch.float64, device=seen.device)
        here[0, batch.lanes], here[1, batch.lanes] = 1.0, last.double()
        shared = mean(torch.cat([moments, here.flatten()]))
        known, total = shared[3:].view(2, -1)
        self.sums.copy_(torch.where(known > 0, total / known, self.sums))
        self._merge(*shared[:3])

    def _merge(self, count: Tensor, total: Tensor, squares: Tensor) -> None:
        """Take in a batch by its sums (Chan et al. 1979)."""
        if not count:
            return
        batch_mean = total / count
        everything = self.count + count
        shift = batch_mean - self.mean
        spread = (
            self.variance * self.count
            + (squares - count * batch_mean.square())
            + shift.square() * self.count * count / everything
        )
        self.mean += shift * count / everything
        self.variance.copy_(spread / everything)
        self.count.copy_(everything)
