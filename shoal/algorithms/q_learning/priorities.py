"""Prioritised replay as an algorithm sees it: its settings, weights row by row, and errors as priorities of sequences."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from torch import Tensor

from shoal.algorithms.settings import Live
from shoal.base.config import Config, Schedule, within


class PrioritisedConfig(Config):
    """Which of the kept sequences are drawn, and what they count (Schaul et al. 2016)."""

    alpha: float = Field(0.6, ge=0, le=1)
    """How much priorities decide: a sequence is drawn in proportion to `priority ** alpha`. 0: all alike."""
    beta: Annotated[float | Schedule, within(0, 1)] = Schedule(start=0.4, end=1.0, steps=100_000)
    """How much of that the loss takes back, by weights `chance ** -beta`: at 1 all of it; a number, or a straight line."""
    eta: Live[float] = Field(0.9, ge=0, le=1)
    """A sequence's priority is this share of its greatest error, and the rest of its mean one (Kapturowski et al. 2019)."""


def on_or_off(value: Any) -> Any:
    """`true` stands for the defaults, `false` for none."""
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


def by_row(weights: Tensor, counts: Tensor, places: Tensor) -> Tensor:
    """Of lanes `[B]` -> of the rows that count, out of `[R, B]` or `[R, B, A]`; `places` of those."""
    return weights.view(-1, *[1] * (counts.ndim - 2)).expand(counts.shape).flatten().index_select(0, places)


def priorities_of(errors: Tensor, counts: Tensor, eta: float) -> Tensor:
    """Errors of the rows that count, out of `[R, B]` or `[R, B, A]` -> `[B]`; 0 where none does."""
    spread = errors.new_zeros(counts.shape).masked_scatter(counts, errors.abs())
    lanes = spread.transpose(0, 1).flatten(1)
    rows = counts.transpose(0, 1).flatten(1).sum(1).clamp(min=1)
    return eta * lanes.amax(1) + (1 - eta) * lanes.sum(1) / rows
