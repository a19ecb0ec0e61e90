"""Learning curves of several runs on one axis: a line and a band, and where each run ended.

Nothing is invented. Between two rows of a run its curve is a straight line; before its first row and after its last it is
nothing. So the line is the interquartile mean of the runs that are there, and the band needs two of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.analysis.statistics import Floats, bootstrap_interval, interquartile_mean
from shoal.analysis.trials import Group, Trial
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean

AXES = {"steps": "step", "seconds": "time/elapsed", "updates": "update"}
"""What a curve may be drawn over -> its column."""
POINTS = 200
"""Of a common axis, where the runs' own rows are more."""


@dataclass(frozen=True)
class Curve:
    """One column of one run, [N] each, oldest first."""

    x: Floats
    y: Floats
    reached: bool = False
    """The run ended because its goal was confirmed."""


@dataclass(frozen=True)
class Band:
    """Several curves as one, over a common axis of G points."""

    label: str
    curves: list[Curve]
    x: Floats
    """[G]"""
    line: Floats
    """[G], the interquartile mean of the runs that are there."""
    low: Floats
    """[G], the lower end of the 95 % interval; NaN where fewer than two runs are."""
    high: Floats
    present: np.ndarray
    """[runs, G], bool: which runs are there."""

    @property
    def ends_apart(self) -> bool:
        """Some runs ended so much earlier than others that it shows: by more than 2 % of the axis."""
        return self._first_end < self.x[-1] - 0.02 * (self.x[-1] - self.x[0])

    @property
    def _first_end(self) -> float:
        return min(float(each.x[-1]) for each in self.curves)

    def pieces(self) -> list[slice]:
        """Stretches of the axis on which the same runs are there: where one begins or ends, the line may jump.

        Runs that end together, within 2 % of the axis, are shown until the first of them ends.
        """
        stop = len(self.x) if self.ends_apart else int(np.searchsorted(self.x, self._first_end, side="right"))
        changes = np.flatnonzero((self.present[:, 1:stop] != self.present[:, : stop - 1]).any(axis=0)) + 1
        ends = [0, *changes.tolist(), stop]
        return [slice(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True) if self.present[:, a].any()]

    @property
    def end(self) -> tuple[float, float]:
        """Where the line that is shown ends."""
        last = self.pieces()[-1].stop - 1
        return float(self.x[last]), float(self.line[last])


def curve(trial: Trial, metric: str, axis: str) -> Curve:
    """The rows that have both numbers."""
    column = AXES[axis]
    points = [(row[column], row[metric]) for row in trial.rows if _number(row.get(column)) and _number(row.get(metric))]
    x, y = np.array(points, np.float64).reshape(-1, 2).T
    return Curve(x, y, reached=(trial.ended["reason"] or "").startswith("stop.return"))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def band(group: Group, metric: str, axis: str) -> tuple[Band, list[str]]:
    """The band of a group, and which of its runs are not in it because they have no such number."""
    if axis not in AXES:
        raise InputError(f"--x {axis}: there is no such axis; choose from: {', '.join(AXES)}")
    curves = [curve(trial, metric, axis) for trial in group.trials]
    if not any(len(each.x) for each in curves):
        raise InputError(f"{group.label} has no '{metric}'; {_others(group, metric)}")
    missing = [trial.folder.name for trial, each in zip(group.trials, curves, strict=True) if not len(each.x)]
    notes = [f"{name} has no '{metric}': left out" for name in missing]
    kept = [i for i, each in enumerate(curves) if len(each.x)]
    strata = [[kept.index(i) for i in stratum if i in kept] for stratum in group.strata]
    return summarise(group.label, [curves[i] for i in kept], [part for part in strata if part]), notes


def summarise(label: str, curves: list[Curve], strata: list[list[int]]) -> Band:
    """Line and band; `strata` are the indices of curves that differ in nothing but chance."""
    x = common_axis(curves)
    values = np.stack([np.interp(x, each.x, each.y, left=np.nan, right=np.nan) for each in curves])
    present = np.isfinite(values)
    line, low, high = (np.full(len(x), np.nan) for _ in range(3))
    for i in np.flatnonzero(present.any(axis=0)):
        there = present[:, i]
        line[i] = interquartile_mean(values[there, i])
        parts = [values[[j for j in stratum if there[j]], i] for stratum in strata]
        low[i], high[i] = bootstrap_interval([part for part in parts if len(part)])
    return Band(label, curves, x, line, low, high, present)


def common_axis(curves: list[Curve]) -> Floats:
    """Every row's own place, or evenly spread places where rows are many; and, of each run, its ends and what is just beyond."""
    own = np.unique(np.concatenate([each.x for each in curves]))
    ends = np.array([end for each in curves for end in (each.x[0], each.x[-1])])
    beyond = np.concatenate([np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf)])
    inner = own if len(own) <= 2 * POINTS else np.linspace(own[0], own[-1], POINTS)
    axis = np.unique(np.concatenate([inner, ends, beyond]))
    return axis[(axis >= own[0]) & (axis <= own[-1])]


def _others(group: Group, metric: str) -> str:
    names = {key for trial in group.trials for row in trial.rows for key, value in row.items() if _number(value)}
    return did_you_mean(metric, names) if names else "it has no rows of numbers yet"
