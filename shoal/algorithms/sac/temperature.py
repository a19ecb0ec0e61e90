"""The temperature: what a nat of entropy is worth, learned or fixed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Temperature(nn.Module):
    """Kept as its logarithm, so that it stays above zero."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(start)))

    @torch.no_grad()
    def set(self, value: float) -> None:
        """Put another in its place."""
        self.log.fill_(math.log(value))

    @property
    def value(self) -> Tensor:
        """As a number to learn by, without a graph."""
        return self.log.detach().exp()
