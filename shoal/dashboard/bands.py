"""Several runs as one line with a band, out of their columns: what `shoal plot` draws, for the page."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np

from shoal.analysis.curves import Curve, summarise
from shoal.analysis.trials import what_is_learned
from shoal.base.errors import InputError
from shoal.dashboard.columns import AXES
from shoal.dashboard.shown import Shown

POINTS = 120
"""Of each run; and about as many of the band."""
KEPT = 64


class BandCache:
    """Bands are computed again when a run has new rows; their bootstrap takes a while."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._known: OrderedDict[Any, dict[str, Any]] = OrderedDict()

    def of(self, names: list[str], metric: str, axis: str) -> dict[str, Any]:
        """Line and band over the axis; nothing where no run has the metric."""
        if axis not in AXES:
            raise InputError(f"there is no axis '{axis[:50]}': choose from {', '.join(AXES)}")
        sketches = {name: self._shown.index.sketch(name, metric, POINTS) for name in names}
        key = (tuple((name, place) for name, (place, _) in sorted(sketches.items())), metric, axis)
        if key not in self._known:
            curves = {name: _curve(found, metric, axis) for name, (_, found) in sketches.items()}
            self._known[key] = self._summarised({name: curve for name, curve in curves.items() if curve is not None})
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[key]

    def _summarised(self, curves: dict[str, Curve]) -> dict[str, Any]:
        if not curves:
            return {"x": [], "line": [], "low": [], "high": [], "runs": 0}
        strata: dict[Any, list[int]] = {}
        for i, name in enumerate(curves):
            strata.setdefault(what_is_learned(self._shown.index.settings(name)), []).append(i)
        band = summarise("", list(curves.values()), list(strata.values()))
        chosen = np.unique(np.linspace(0, len(band.x) - 1, 2 * POINTS).astype(int))
        columns = {"x": band.x, "line": band.line, "low": band.low, "high": band.high}
        return {name: _finite(column[chosen]) for name, column in columns.items()} | {"runs": len(curves)}


def _curve(found: dict[str, Any], metric: str, axis: str) -> Curve | None:
    if metric not in found["y"] or axis not in found["x"]:
        return None
    pairs = zip(found["x"][axis], found["y"][metric]["mean"], strict=True)
    points = [(x, y) for x, y in pairs if x is not None and y is not None]
    if not points:
        return None
    x, y = np.array(points, np.float64).T
    return Curve(x, y)


def _finite(values: Any) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
