"""Numbers that know how they are reduced, so that nobody averages a total or adds up a mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Mean:
    """Averaged, by weight."""

    value: float
    weight: float = 1.0

    def merge(self, later: Self) -> Self:
        """The weighted mean of both."""
        weight = self.weight + later.weight
        value = (self.value * self.weight + later.value * later.weight) / weight if weight else self.value
        return type(self)(value, weight)


@dataclass(frozen=True)
class Total:
    """Added up over workers and time since the last row."""

    value: float

    def merge(self, later: Self) -> Self:
        """The sum of both."""
        return type(self)(self.value + later.value)


@dataclass(frozen=True)
class Last:
    """The newest counts: schedules, gauges."""

    value: float

    def merge(self, later: Self) -> Self:
        """The later one."""
        return later


@dataclass(frozen=True)
class Largest:
    """The greatest counts: lags, waits."""

    value: float

    def merge(self, later: Self) -> Self:
        """The greater one."""
        return later if later.value > self.value else self


Metric = Mean | Total | Last | Largest
METRICS: dict[str, type[Metric]] = {cls.__name__: cls for cls in (Mean, Total, Last, Largest)}
"""By name: how they are sent and saved."""


def merge_into(metrics: dict[str, Metric], later: Mapping[str, Metric]) -> None:
    """Fold `later` into `metrics`, name by name."""
    for name, metric in later.items():
        metrics[name] = metrics[name].merge(metric) if name in metrics else metric  # type: ignore[arg-type]
