"""The arithmetic of all benchmarks: slopes after warm-up, medians with their spread, ratios, the limit and the share of it."""

from __future__ import annotations

import statistics
from typing import NamedTuple

Point = tuple[float, float]
"""When, and how much so far: steps, or seconds of CPU."""


class Parts(NamedTuple):
    """Seconds of one core per environment step: to step the environment, to decide, and to learn from it once."""

    env: float
    inference: float
    train: float


def warm(points: list[Point], skip: float = 0.2) -> tuple[Point, Point]:
    """The window that counts: from the first point beyond `skip` of the amount to the last."""
    begin = next((point for point in points if point[1] >= points[-1][1] * skip), None)
    if begin is None or begin[0] >= points[-1][0] or begin[1] >= points[-1][1]:
        raise ValueError(f"no window after warm-up in {len(points)} points: run for longer")
    return begin, points[-1]


def slope(points: list[Point], skip: float = 0.2) -> float:
    """Steps per second once warm."""
    (began, before), (ended, after) = warm(points, skip)
    return (after - before) / (ended - began)


def since_first(updates: list[Point], steps: list[Point]) -> list[Point]:
    """Steps from the first moment on at which there were updates: whoever fills its replay does not learn yet."""
    began = next((moment for moment, done in updates if done > 0), None)
    if began is None:
        raise ValueError("no update: run for longer, or warm up for less")
    before = amount_at(steps, began)
    return [(moment, amount - before) for moment, amount in steps if moment >= began]


def amount_at(samples: list[Point], moment: float) -> float:
    """A growing amount at any moment, along straight lines between its samples."""
    later = next((i for i, sample in enumerate(samples) if sample[0] >= moment), None)
    if later is None:
        return samples[-1][1]
    if later == 0:
        return samples[0][1]
    (left, low), (right, high) = samples[later - 1], samples[later]
    return low + (high - low) * (moment - left) / (right - left)


def cpu_per_million(points: list[Point], cpu: list[Point], skip: float = 0.2) -> float:
    """Seconds of CPU per million steps in the window in which `slope` counts steps."""
    (began, before), (ended, after) = warm(points, skip)
    return 1e6 * (amount_at(cpu, ended) - amount_at(cpu, began)) / (after - before)


def limit(cores: int, parts: Parts, passes: int) -> float:
    """Steps per second of a machine that did nothing but step, decide and learn, on all cores all the time."""
    return cores / (parts.env + parts.inference + passes * parts.train)


def ratio(over: list[float], under: list[float]) -> float:
    """The median over repeats, so that what disturbs a whole repeat cancels out."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def median(values: list[float], digits: int = 1) -> str:
    """`median (lowest to highest)`."""
    middle, low, high = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"
