"""A model that takes its time to decide, however busy the machine is."""

from __future__ import annotations

import time
from typing import Any

from torch import Tensor

from shoal.models.mlp import MLPModel


class Slow(MLPModel):
    """Twenty milliseconds for every forward, of one row or of a thousand."""

    def forward(self, observation: Any, state: Any, first: Tensor) -> tuple[Tensor, Any]:
        time.sleep(0.02)
        return super().forward(observation, state, first)
