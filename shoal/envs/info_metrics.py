"""Numbers of `info`, reduced over an episode: the info of every step in, a number per name at the episode's end out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

_FIRST = {"sum": 0.0, "mean": 0.0, "last": 0.0, "max": -np.inf}


class InfoMetrics:
    """`watched`: name -> `sum`, `mean`, `last` or `max` over the steps whose info holds the name, itself or under `metrics`.

    Where several agents have an info each, every agent has its own number; the episode's is their mean.
    """

    def __init__(self, watched: Mapping[str, str]) -> None:
        self._watched = dict(watched)
        self._open: dict[int, dict[tuple[str, Hashable], tuple[float, int]]] = {}

    def take(self, row: int, info: Mapping[str, Any], agent: Hashable = None) -> None:
        """What one step of a copy has to say; ValueError or TypeError where it is no number."""
        nested = info.get("metrics")
        for name in self._watched:
            value = info.get(name)
            if value is None and isinstance(nested, Mapping):
                value = nested.get(name)
            if value is not None:
                self.add(row, name, _number(name, value), agent)

    def add(self, row: int, name: str, number: float, agent: Hashable = None) -> None:
        """One number of one step."""
        reduction, numbers = self._watched[name], self._open.setdefault(row, {})
        total, count = numbers.get((name, agent), (_FIRST[reduction], 0))
        if reduction == "last":
            total = number
        else:
            total = max(total, number) if reduction == "max" else total + number
        numbers[name, agent] = total, count + 1

    def close(self, row: int) -> dict[str, float]:
        """The copy's episode is over: its numbers, of all names that it ever held."""
        found: dict[str, list[float]] = {}
        for (name, _), (total, count) in self._open.pop(row, {}).items():
            found.setdefault(name, []).append(total / count if self._watched[name] == "mean" else total)
        return {name: float(np.mean(values)) for name, values in found.items()}

    def take_batch(self, info: Mapping[str, Any], rows: np.ndarray) -> None:
        """Some copies of a vector environment, in gymnasium's batched form: `{name: [rows], _name: which rows have it}`."""
        for batch in (info, info.get("metrics") or {}):
            for name in self._watched:
                if name in batch:
                    held = batch.get(f"_{name}", True)
                    for row in np.flatnonzero(rows & held).tolist():
                        self.add(row, name, _number(name, batch[name][row]))


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"evaluation.metrics.{name}: info['{name}'] is {value!r}, and not a number") from None
