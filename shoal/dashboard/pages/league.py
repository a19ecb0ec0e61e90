"""The league of a run: members by strength, what they earn against each other, whom players meet."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.analysis.league_table import league_table
from shoal.api.experiment import Experiment
from shoal.dashboard.below import Root, Stamp, stamp
from shoal.dashboard.pages.run import HOME
from shoal.dashboard.shown import Shown, as_json, name_of, route

SHARE = 0.02
"""Of the time, at most, is spent on reading a journal again that grows."""
KEPT = 16
"""Leagues that are remembered."""


def routes(shown: Shown) -> list[Route]:
    """What the part of the page asks for."""
    tables = Tables(shown.root)

    def league(request: Request) -> Response:
        name = name_of(request)
        shown.index.settings(name)
        return as_json(tables.of(name))

    return [route(f"{HOME}/league", league)]


class Tables:
    """Remembers what was computed: a journal of a million matches takes a while."""

    def __init__(self, root: Root) -> None:
        self._root, self._lock = root, threading.Lock()
        self._known: dict[str, tuple[list[Stamp | None], float, dict[str, Any] | None]] = {}
        """Run -> what its files were like, when they may be read again, what came of it."""

    def of(self, name: str) -> dict[str, Any] | None:
        """None: the run has no league, or none yet."""
        with self._lock:
            try:
                with self._root.folder(*name.split("/"), "league") as folder:
                    stamps = [stamp(folder, file) for file in ("matches.bin", "decisions.jsonl")]
                    known = self._known.get(name)
                    if known is None or (known[0] != stamps and time.monotonic() > known[1]):
                        known = self._read(name, folder, stamps)
            except OSError:  # it is not there, or no file of its own
                return None
            self._known.pop(name, None)
            self._known[name] = known
            while len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
            return known[2]

    def _read(
        self, name: str, folder: int, stamps: list[Stamp | None]
    ) -> tuple[list[Stamp | None], float, dict[str, Any] | None]:
        began = time.monotonic()
        with self._root.run(name) as run:
            found = league_table(Experiment.parse(run.read_config()), Path(f"/proc/self/fd/{folder}"))
        now = time.monotonic()
        return stamps, now + (now - began) / SHARE, found
