"""The page of all runs: their records as a stream, the words that choose among them, and bands over the seeds of an experiment."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.base.errors import InputError
from shoal.dashboard.bands import BandCache
from shoal.dashboard.shown import Shown, as_json, route
from shoal.dashboard.stream import Event
from shoal.monitoring.progress import RETURN

MOST_WORDS = 20


def routes(shown: Shown) -> list[Route]:
    """What the page asks for."""
    start, bands = secrets.token_hex(4), BandCache(shown)

    def changes(place: str) -> Iterator[Event]:
        """A page of an earlier start knows other numbers: it begins anew."""
        began, _, number = place.partition("-")
        known = int(number) if began == start and number.isdecimal() else -1
        newest, records, removed = shown.index.changes(known)
        if records or removed or known < 0:
            yield "runs", {"runs": records, "gone": removed, "all": known < 0}, f"{start}-{newest}"

    def stream(request: Request) -> Response:
        return shown.streams.respond(request, changes)

    def match(request: Request) -> Response:
        """What is wrong with a word is an answer too: somebody is still typing it."""
        words = request.query_params.get("words", "").split()[:MOST_WORDS]
        try:
            return as_json({"runs": shown.index.fitting(words), "error": None})
        except InputError as error:
            return as_json({"runs": [], "error": str(error)[:500]})

    def band(request: Request) -> Response:
        """The runs of each experiment as one line."""
        names = request.query_params.getlist("run")[:200]
        metric, axis = request.query_params.get("metric", RETURN), request.query_params.get("x", "step")
        return as_json(bands.of(names, metric, axis))

    return [route("/api/runs/stream", stream), route("/api/runs/match", match), route("/api/runs/band", band)]
