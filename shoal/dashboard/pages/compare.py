"""The page of chosen runs side by side: their curves, and the settings in which they differ."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.analysis.comparison import differing_settings
from shoal.dashboard.shown import Shown, as_json, route
from shoal.monitoring.progress import RETURN

MOST = 24
"""Runs at a time."""
POINTS = 400


def routes(shown: Shown) -> list[Route]:
    """What the page asks for."""

    def compare(request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST]
        metric = request.query_params.get("metric", RETURN)
        views = [shown.view(name) for name in names]
        curves, metrics = [], set[str]()
        for view in views:
            with view.lock:
                curves.append({"run": view.name, **view.columns.curves([metric], POINTS)})
                metrics |= view.columns.values.keys()
        settings = [[shown.index.settings(name)] for name in names]
        differing = {key: [_text(values) for values in found] for key, found in differing_settings(settings).items()}
        return as_json(
            {"runs": [shown.index.record(name) for name in names], "curves": curves, "differences": differing,
             "metrics": sorted(metrics - {"step", "update"})}
        )  # fmt: skip

    return [route("/api/compare", compare)]


def _text(values: list[Any]) -> str | None:
    return ", ".join("null" if value is None else str(value) for value in values)[:300] if values else None
