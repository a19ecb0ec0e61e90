"""The page of one run: a live document as a stream, curves on demand, its settings, its logs, its checkpoints and its videos."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.base.errors import InputError
from shoal.dashboard.checkpoints import list_checkpoints
from shoal.dashboard.columns import AXES
from shoal.dashboard.log_text import read_log
from shoal.dashboard.media import send_file
from shoal.dashboard.origins import where_from
from shoal.dashboard.run_record import stop_rules
from shoal.dashboard.shown import Shown, as_json, name_of, route
from shoal.dashboard.stream import Event
from shoal.monitoring.progress import Progress

HOME = "/api/run/{experiment}/{trial}"
POINTS = 500
"""Of a curve."""
MOST_CURVES = 40
VIDEOS = {"mp4": "video/mp4", "gif": "image/gif"}


def routes(shown: Shown) -> list[Route]:
    """What the page asks for."""
    return [*_live(shown), *_files(shown)]


def _live(shown: Shown) -> list[Route]:
    def document(name: str) -> dict[str, Any]:
        view, settings = shown.view(name), shown.index.settings(name)
        with view.lock:
            return {
                **shown.index.record(name), "rules": _rules(view, settings), "pipeline": view.pipeline(settings),
                "metrics": sorted(view.columns.values.keys() - {"step", "update"}), "rows": len(view.columns),
                "sampled": view.columns.sampled, "control": shown.control,
                "evaluating": view.status.get("evaluating"), "settings": _orders(settings),
            }  # fmt: skip

    def stream(request: Request) -> Response:
        name, told = name_of(request), dict[str, Any]()

        def changes(place: str) -> Iterator[Event]:
            try:
                now = document(name)
            except FileNotFoundError:
                if not told.get("gone"):
                    told["gone"] = True
                    yield "gone", {}, "gone"
                return
            told["gone"] = False
            view = shown.view(name)
            with view.lock:
                rows, events, at = view.new_rows(place), view.knows_events(place), view.place
                newest = [] if events else list(view.events)
            if rows is None:
                yield "anew", {}, at
            elif rows:
                yield "rows", rows, at
            if newest or not events:
                yield "events", newest, at
            if now != told.get("run"):
                told["run"] = now
                yield "run", now, at

        return shown.streams.respond(request, changes)

    def curves(request: Request) -> Response:
        name, query = name_of(request), request.query_params
        names, axis = query.getlist("metric")[:MOST_CURVES], query.get("x", "step")
        view = shown.view(name)
        with view.lock:
            columns = view.columns
            if "from" in query:
                if axis not in AXES:
                    raise InputError(f"there is no axis '{axis[:50]}': choose from {', '.join(AXES)}")
                with shown.root.file(*name.split("/"), "metrics.jsonl") as file:
                    columns = columns.stretch(file, axis, _float(query, "from"), _float(query, "to"))
            return as_json({**columns.curves(names, POINTS), "place": view.place, "sampled": view.columns.sampled})

    return [route(f"{HOME}/stream", stream), route(f"{HOME}/curves", curves)]


def _files(shown: Shown) -> list[Route]:
    def settings(request: Request) -> Response:
        name = name_of(request)
        return as_json(where_from(shown.root, name, shown.index.settings(name)))

    def checkpoints(request: Request) -> Response:
        shown.index.settings(name_of(request))
        return as_json(list_checkpoints(shown.root, name_of(request)))

    def logs(request: Request) -> Response:
        return as_json(shown.root.names(*name_of(request).split("/"), "logs", folders=False))

    def log(request: Request) -> Response:
        file, search = request.path_params["file"], request.query_params.get("search", "")
        return as_json(read_log(shown.root, [*name_of(request).split("/"), "logs", file], search))

    def videos(request: Request) -> Response:
        found = shown.root.names(*name_of(request).split("/"), "videos", folders=False)
        return as_json([name for name in found if name.endswith(".mp4")][::-1])

    def video(request: Request) -> Response:
        file = request.path_params["file"]
        kind = VIDEOS.get(file.rpartition(".")[2])
        if kind is None:
            raise FileNotFoundError(file)
        return send_file(shown.root, [*name_of(request).split("/"), "videos", file], kind, request)

    return [
        route(f"{HOME}/settings", settings), route(f"{HOME}/checkpoints", checkpoints), route(f"{HOME}/logs", logs),
        route(f"{HOME}/logs/{{file}}", log), route(f"{HOME}/videos", videos), route(f"{HOME}/videos/{{file}}", video),
    ]  # fmt: skip


def _rules(view: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """How near each stop rule is."""
    stop = stop_rules(settings)
    if stop is None or not len(view.columns):
        return []
    progress, count = Progress(stop), len(view.columns)
    for i in sorted({0, *range(max(0, count - 30), count)}):
        row = {name: column[i] for name, column in view.columns.values.items() if column[i] == column[i]}
        progress.add(row)
    if (score := view.columns.last("eval/mean_reward")) is not None:
        progress.evaluated = {"eval/mean_reward": score}
    rules = progress.rules()
    return [
        {"name": rule.name, "fraction": rule.fraction, "text": rule.text, "left": rule.seconds_left} for rule in rules
    ]


def _orders(settings: dict[str, Any]) -> dict[str, Any]:
    """What the page must know to offer orders."""
    policies = sorted({key.split(".")[1] for key in settings if key.startswith("policies.")})
    league = any(key.startswith("league.") for key in settings)
    return {"evaluates": "evaluation.every" in settings, "policies": policies, "league": league}


def _float(query: Any, name: str) -> float:
    try:
        return float(query.get(name, ""))
    except ValueError:
        raise InputError(f"{name} is no number") from None
