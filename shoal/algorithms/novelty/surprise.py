"""Random network distillation: how new an observation is to the whole run. Burda et al. 2019.

A network learns to say what a random one says; where it cannot yet, few have been. Statistics are buffers and so part of a
version: the trainer keeps them, actors only apply them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from shoal.api.algorithm import NonFiniteError
from shoal.models.layers import Dense, orthogonal
from shoal.models.normaliser import Moments

CLIP = 5.0
OUTPUTS = 64
PACE = 0.01
"""Share of the running error that a batch brings, once a hundred have been."""
ROUNDING = 1e-6
"""A spread below this share of the mean is none."""
EVERY = 4
"""One row of so many is counted for the statistics of the input: sums of wide rows would take as long as learning from them."""


class Surprise(nn.Module):
    """Observations as vectors `[..., width]` -> errors, raw or on a scale where 1 is the mean and the spread is 1 (`forward`)."""

    mean: Tensor
    square: Tensor
    updates: Tensor

    def __init__(self, width: int, hidden: list[int]) -> None:
        super().__init__()
        self.moments = Moments((width,))
        self.target = frozen(_network(width, hidden))
        self.predictor = _network(width, hidden)
        for name in ("mean", "square", "updates"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def errors(self, seen: Tensor) -> Tensor:
        """`[..., width]` -> `[...]`: mean squared error of the prediction, of the normalised observation."""
        seen = self.moments(seen).clamp(-CLIP, CLIP)
        return (self.predictor(seen) - self.target(seen)).square().mean(-1)

    def forward(self, seen: Tensor) -> Tensor:
        """1 + (error - its mean) / its spread; 1 as long as there is no spread."""
        spread = (self.square - self.mean.square()).clamp(min=0).sqrt()
        if not spread > ROUNDING * self.mean:
            return torch.ones(seen.shape[:-1], device=seen.device)
        return (1 + (self.errors(seen).double() - self.mean) / spread).float()

    @torch.no_grad()
    def update_inputs(self, seen: Tensor, mean: Callable[[Tensor], Tensor]) -> None:
        """Take some rows of `[n, width]` into the statistics of the input. `mean`: over the replicas of the trainer.

        Raises NonFiniteError, on all replicas alike, if a row was NaN or infinite; nothing is merged then.
        """
        sums = mean(self.moments.sums(seen[::EVERY]))
        if not sums.isfinite().all():
            raise NonFiniteError("observation: a value is NaN or infinite")
        self.moments.merge(sums)

    @torch.no_grad()
    def update_errors(self, errors: Tensor, mean: Callable[[Tensor], Tensor]) -> None:
        """Take errors `[n]` into their running mean and spread."""
        errors = errors.double()
        rows = torch.full((), float(len(errors)), dtype=torch.float64, device=errors.device)
        count, total, squares = mean(torch.stack([rows, errors.sum(), errors.square().sum()]))
        if not total.isfinite():
            raise NonFiniteError("the error of the prediction that novelty is made of is NaN or infinite")
        if not count:
            return
        self.updates += 1
        pace = (1 / self.updates).clamp(min=PACE)
        self.mean.lerp_(total / count, pace)
        self.square.lerp_(squares / count, pace)


def _network(width: int, hidden: list[int]) -> nn.Sequential:
    return nn.Sequential(Dense(width, hidden, "relu"), orthogonal(nn.Linear(hidden[-1], OUTPUTS)))


def frozen(module: nn.Module) -> nn.Module:
    """Its parameters become buffers: they travel with the version and are never trained."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            part.register_buffer(name, parameter.data)
    return module
