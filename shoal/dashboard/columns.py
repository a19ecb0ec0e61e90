"""The rows of a `metrics.jsonl` as columns: bytes in as the file grows, curves of a few hundred points out.

A long file is not read to its end: of what is more than `WHOLE` bytes, evenly spread lines are, and of a stretch that somebody
zooms into as many again. So a run of a million rows costs what one of some thousands does.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np

WHOLE = 2 << 20
"""Bytes that are read in full at a time."""
SAMPLES = 1500
"""Lines of a stretch that is longer."""
MOST = 8192
"""Rows that are kept; then every other one goes."""
WIDEST = 512
"""Columns of a run."""
LONGEST = 1 << 16
"""Bytes of a line that is looked at."""
AXES = ("step", "update", "time/elapsed")
"""What a curve may be drawn over."""


class Columns:
    """What is known of one file. Row i is `values[name][i]` of every column, NaN where it has no such number."""

    def __init__(self, whole: int = WHOLE, samples: int = SAMPLES, most: int = MOST) -> None:
        self._whole, self._samples, self._most = whole, samples, most
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all rows: it is another file now."""
        self.values: dict[str, array[float]] = {}
        self.places = array("q")
        """[rows], where each line begins in the file."""
        self.end = 0
        """Where reading goes on."""
        self.sampled = False
        """Not every row is here."""
        self.inode = 0

    def __len__(self) -> int:
        return len(self.places)

    def read(self, file: BinaryIO) -> bool:
        """Take in what is new; False where nothing is."""
        found = os.fstat(file.fileno())
        if found.st_ino != self.inode or found.st_size < self.end:
            self.begin_anew()
            self.inode = found.st_ino
        if found.st_size == self.end:
            return False
        before = self.end
        if found.st_size - self.end > self._whole:
            self._skim(file, self.end, found.st_size - self._whole // 8)
        self._read_on(file, found.st_size)
        return self.end > before

    def _skim(self, file: BinaryIO, begin: int, end: int) -> None:
        self.sampled = True
        for place, row in lines_between(file, begin, end, self._samples):
            self._add(place, row)
            self.end = place + 1
        self.end = _next_line(file, end)

    def _read_on(self, file: BinaryIO, size: int) -> None:
        raw = os.pread(file.fileno(), size - self.end, self.end)
        place = self.end
        for line in raw.split(b"\n")[:-1]:
            if (row := _parse(line)) is not None:
                self._add(place, row)
            place += len(line) + 1
        self.end = place

    # ---------------------------------------------------------------- rows

    def _add(self, place: int, row: dict[str, float]) -> None:
        """Where steps go back, the run was resumed: what was written later holds."""
        if "step" not in row:
            return
        steps = self.values.get("step", array("d"))
        if len(steps) and row["step"] < steps[-1]:
            self._cut(bisect_left(steps, row["step"]))
        for name in row.keys() - self.values.keys():
            if len(self.values) < WIDEST:
                self.values[name] = array("d", [math.nan]) * len(self)
        for name, column in self.values.items():
            column.append(row.get(name, math.nan))
        self.places.append(place)
        if len(self) > self._most:
            self._thin()

    def _cut(self, rows: int) -> None:
        for column in self.values.values():
            del column[rows:]
        del self.places[rows:]

    def _thin(self) -> None:
        """The first and the last stay."""
        self.sampled = True
        kept = slice(len(self) % 2 == 0, None, 2)
        for name, column in self.values.items():
            self.values[name] = column[:1] + column[kept][1:] if kept.start else column[kept]
        self.places = self.places[:1] + self.places[kept][1:] if kept.start else self.places[kept]

    # ---------------------------------------------------------------- what is shown

    def last(self, name: str) -> float | None:
        """The newest value of a column."""
        return next((value for value in reversed(self.values.get(name, ())) if math.isfinite(value)), None)

    def mean(self, name: str) -> float | None:
        """Of all rows that are here."""
        column = np.frombuffer(self.values.get(name, array("d")), np.float64)
        known = column[np.isfinite(column)]
        return float(known.mean()) if len(known) else None

    def rows(self, begin: int) -> range:
        """Which begin at this place of the file or behind it."""
        return range(bisect_left(self.places, begin), len(self))

    def table(self, rows: Iterable[int], names: Iterable[str] | None = None) -> dict[str, list[float | None]]:
        """Those rows as they are; a column without a number in them is not there."""
        chosen = list(rows)
        found = {name: [self.values[name][i] for i in chosen] for name in names or self.values if name in self.values}
        return {name: _finite(column) for name, column in found.items() if any(map(math.isfinite, column))}

    def curves(self, names: list[str], points: int) -> dict[str, Any]:
        """In at most so many stretches: where each ends on every axis; mean, least and greatest of each column in it."""
        count = len(self)
        edges = np.unique(np.linspace(0, count, min(points, count) + 1).astype(int)) if count else np.zeros(1, int)
        first, last = edges[:-1], edges[1:] - 1
        x = {axis: _finite(self._column(axis)[last].tolist()) for axis in AXES if axis in self.values}
        return {"x": x, "y": {name: _reduced(self._column(name), first) for name in names if name in self.values}}

    def _column(self, name: str) -> np.ndarray:
        return np.frombuffer(self.values[name], np.float64).copy()  # a view would keep the array from growing

    def stretch(self, file: BinaryIO, axis: str, begin: float, end: float) -> Columns:
        """More of what lies between two values of an axis, out of the file."""
        x = self._column(axis) if axis in self.values else np.zeros(0)
        inside = np.flatnonzero((x >= begin) & (x <= end))
        if not self.sampled or not len(inside):
            return self._part(inside)
        low, high = max(0, inside[0] - 1), min(len(self) - 1, inside[-1] + 1)
        finer = Columns(self._whole, self._samples, 4 * self._samples)
        finer.sampled = True
        for place, row in lines_between(file, self.places[low], self.places[high] + 1, 2 * self._samples):
            finer._add(place, row)
        return finer

    def _part(self, inside: np.ndarray) -> Columns:
        part = Columns(self._whole, self._samples, self._most)
        low, high = (max(0, inside[0] - 1), inside[-1] + 2) if len(inside) else (0, 0)
        part.values = {name: column[low:high] for name, column in self.values.items()}
        part.places = self.places[low:high]
        return part


def lines_between(file: BinaryIO, begin: int, end: int, count: int) -> Iterable[tuple[int, dict[str, float]]]:
    """At most `count` evenly spread lines that begin between two places, oldest first; `begin` is where one begins."""
    last = -1
    for i in range(count):
        place = begin if i == 0 else _next_line(file, begin + i * (end - begin) // count)
        if last < place < end:
            last = place
            raw = os.pread(file.fileno(), 4096, place)
            if b"\n" not in raw:
                raw = os.pread(file.fileno(), LONGEST, place)
            if (row := _parse(raw.partition(b"\n")[0])) is not None:
                yield place, row


def _next_line(file: BinaryIO, place: int) -> int:
    """Where the next one begins."""
    for size in (4096, LONGEST):
        found = os.pread(file.fileno(), size, place).find(b"\n")
        if found >= 0:
            return place + found + 1
    return place + LONGEST


def _parse(line: bytes) -> dict[str, float] | None:
    """Its numbers; None where it is no row."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    numbers = (int, float)
    try:
        return {key: float(value) for key, value in row.items() if type(value) in numbers and len(key) <= 200}
    except OverflowError:
        return None


def _reduced(column: np.ndarray, first: np.ndarray) -> dict[str, list[float | None]]:
    """Mean, least and greatest of each stretch, over the rows that have a number."""
    if not len(first):
        return {"mean": [], "low": [], "high": []}
    known = np.isfinite(column)
    column = np.where(known, column, np.nan)
    counts = np.add.reduceat(known, first, dtype=np.float64)
    sums = np.add.reduceat(np.where(known, column, 0.0), first)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums / counts
    low, high = np.fmin.reduceat(column, first), np.fmax.reduceat(column, first)
    return {"mean": _finite(mean.tolist()), "low": _finite(low.tolist()), "high": _finite(high.tolist())}


def _finite(values: list[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
