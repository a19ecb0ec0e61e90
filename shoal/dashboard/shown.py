"""What all pages share: the folder, the list of runs, those that are looked at closely, and how an answer is given."""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shoal.base.errors import ShoalError
from shoal.dashboard.below import Root, check_part
from shoal.dashboard.run_view import RunView
from shoal.dashboard.runs_index import RunsIndex
from shoal.dashboard.stream import Streams

KEPT = 48
"""Runs whose columns are kept; then the one that nobody looked at longest goes."""


class Shown:
    """The state of the server."""

    def __init__(self, root: Root, streams: Streams, *, control: bool) -> None:
        self.root, self.streams, self.control = root, streams, control
        self.index = RunsIndex(root)
        self._views: OrderedDict[str, RunView] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, name: str) -> RunView:
        """A run, read up to now; FileNotFoundError where there is none."""
        self.index.settings(name)
        with self._lock:
            view = self._views.pop(name, None) or RunView(self.root, name)
            self._views[name] = view
            while len(self._views) > KEPT:
                self._views.popitem(last=False)
        view.look()
        return view


def name_of(request: Request) -> str:
    """`experiment/trial`, of the path; FileNotFoundError where it can be no run's."""
    return "/".join(check_part(request.path_params[part]) for part in ("experiment", "trial"))


def as_json(document: Any) -> Response:
    """What a page asked for."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Response(text, media_type="application/json", headers={"cache-control": "no-store"})


def route(path: str, answer: Callable[[Request], Response], methods: tuple[str, ...] = ("GET",)) -> Route:
    """What is missing is a 404 in a line, what is wrong a 400."""

    @functools.wraps(answer)
    def safe(request: Request) -> Response:
        try:
            return answer(request)
        except FileNotFoundError:
            return PlainTextResponse("there is nothing of that name", 404, {"cache-control": "no-store"})
        except ShoalError as error:
            return PlainTextResponse(str(error)[:2000], 400, {"cache-control": "no-store"})

    return Route(path, safe, methods=list(methods))
