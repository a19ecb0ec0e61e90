"""The page of a population: who is in which slot, what each member is made of and how good it is, who took over from whom."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.dashboard.below import check_part
from shoal.dashboard.population_record import PopulationRecord
from shoal.dashboard.shown import Shown, as_json, route
from shoal.dashboard.stream import Event
from shoal.monitoring.progress import RETURN

HOME = "/api/population/{name}"
SCORE = "score"
"""The curve that is drawn from the journal; all others are metrics of the members' runs."""
POINTS = 200
KEPT = 16
"""Populations that are remembered."""


def routes(shown: Shown) -> list[Route]:
    """What the page asks for."""
    known, lock = OrderedDict[str, PopulationRecord](), threading.Lock()

    def of(request: Request) -> PopulationRecord:
        name = check_part(request.path_params["name"])
        with lock:
            record = known.pop(name, None) or PopulationRecord(shown.root, name)
            known[name] = record
            while len(known) > KEPT:
                known.popitem(last=False)
        return record

    def stream(request: Request) -> Response:
        record, told = of(request), dict[str, Any]()

        def changes(place: str) -> Iterator[Event]:
            try:
                record.look()
            except FileNotFoundError:
                if not told.get("gone"):
                    told.clear()
                    told["gone"] = True
                    yield "gone", {}, "gone"
                return
            told["gone"] = False
            yield from _news(record, shown, told)

        return shown.streams.respond(request, changes)

    def curves(request: Request) -> Response:
        record, metric = of(request), request.query_params.get("metric", SCORE)
        record.look()
        with record.lock:
            names, scores = [each["member"] for each in record.facts.members], record.facts.scores
        found = scores if metric == SCORE else [_curve(shown, record.name, each, metric) for each in names]
        return as_json({"metric": metric, "metrics": _metrics(shown, record.name, names), "curves": found})

    return [route(f"{HOME}/stream", stream), route(f"{HOME}/curves", curves)]


def _news(record: PopulationRecord, shown: Shown, told: dict[str, Any]) -> Iterator[Event]:
    """What a page has not been told yet: of members, those that changed."""
    with record.lock:
        head, members = record.head(shown.index), {each["member"]: each for each in record.members(shown.index)}
        lineage = record.facts.lineage if told.get("number") != record.number else None
        told["number"] = record.number
    if head != told.get("head"):
        told["head"] = head
        yield "population", head, "0"
    before = told.get("members")
    changed = [each for name, each in members.items() if before is None or before.get(name) != each]
    told["members"] = members
    if changed or before is None:
        yield "members", {"members": changed, "all": before is None}, "0"
    if lineage is not None:
        yield "lineage", lineage, "0"


def _curve(shown: Shown, population: str, member: str, metric: str) -> dict[str, Any]:
    try:
        _, found = shown.index.sketch(f"{population}/{member}", metric, POINTS)
    except FileNotFoundError:  # it has not begun
        return {"member": member, "x": [], "y": []}
    y = found["y"].get(metric)
    return {"member": member, "x": found["x"].get("step", []) if y else [], "y": y["mean"] if y else []}


def _metrics(shown: Shown, population: str, members: list[str]) -> list[str]:
    """Of the first members that have begun: the others have the same."""
    found: set[str] = {RETURN}
    for member in members[:3]:
        try:
            found |= shown.index.run(f"{population}/{member}").sketch.values.keys()
        except FileNotFoundError:
            continue
    return [SCORE, *sorted(found - {"step", "update"})]
