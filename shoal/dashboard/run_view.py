"""One run, looked at closely: its curves, what its workers do, its events, as one live document."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any

from shoal.base.errors import ShoalError
from shoal.dashboard.below import Root, is_socket, stamp
from shoal.dashboard.columns import Columns
from shoal.dashboard.pipeline import pipeline
from shoal.monitoring.jsonl import newest_first
from shoal.runs.panel import ask

BETWEEN = 0.9
"""Seconds between two looks, however many ask."""
ROWS = 60
"""New rows that a page is sent at a time; of more, evenly spread ones."""
EVENTS = 400
"""Of the newest that are shown."""
PATIENCE = 1.0
"""Seconds for a run to answer."""


class RunView:
    """Shared by all pages that show this run."""

    def __init__(self, root: Root, name: str) -> None:
        self.name = name
        self.columns = Columns()
        self.status: dict[str, Any] = {}
        """What the live run says of itself; empty where nobody answers."""
        self.events: list[dict[str, Any]] = []
        self.lock = threading.RLock()
        self._root, self._parts = root, name.split("/")
        self._events_stamp: Any = None
        self._events_number = 0
        self._looked_at = float("-inf")

    def look(self) -> None:
        """Read what is new. FileNotFoundError where the run is gone."""
        with self.lock:
            now = time.monotonic()
            if now - self._looked_at < BETWEEN:
                return
            self._looked_at = now
            with self._root.folder(*self._parts) as handle:
                if stamp(handle, "config.yaml") is None:
                    raise FileNotFoundError(self.name)
                events, lives = stamp(handle, "events.jsonl"), is_socket(handle, "control.sock")
            with contextlib.suppress(FileNotFoundError), self._root.file(*self._parts, "metrics.jsonl") as file:
                self.columns.read(file)
            if events != self._events_stamp:
                self._events_stamp = events
                self._read_events()
            self.status = self._ask() if lives else {}

    def _read_events(self) -> None:
        found = []
        with contextlib.suppress(ShoalError), self._root.run(self.name) as folder:
            for event in newest_first(folder.events):
                found.append(_shortened(event))
                if len(found) == EVENTS:
                    break
        self.events, self._events_number = found, self._events_number + 1

    def _ask(self) -> dict[str, Any]:
        try:
            with self._root.run(self.name) as folder:
                answer = ask(folder, "status", timeout=PATIENCE)
            return answer if len(json.dumps(answer)) < 1 << 20 and "error" not in answer else {}
        except (ShoalError, OSError, ValueError, AssertionError):
            return {}

    # ---------------------------------------------------------------- for the page

    @property
    def place(self) -> str:
        """Where a page is that has been told everything."""
        return f"{self.columns.inode}.{self.columns.end}.{self._events_number}"

    def new_rows(self, place: str) -> dict[str, list[float | None]] | None:
        """What came since that place; None: it is no place of this file, and the page has to begin anew."""
        inode, _, rest = place.partition(".")
        end = rest.partition(".")[0]
        if inode != str(self.columns.inode) or not end.isdecimal() or int(end) > self.columns.end:
            return None
        rows = self.columns.rows(int(end))
        every = -(-len(rows) // ROWS) or 1
        return self.columns.table(rows[::-1][::every][::-1])

    def knows_events(self, place: str) -> bool:
        """Whether a page at that place has been told all events."""
        return place.rpartition(".")[2] == str(self._events_number)

    def pipeline(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Its workers and what flows between them."""
        return pipeline(self.status, self.columns, settings, self.events)


def _shortened(event: dict[str, Any]) -> dict[str, Any]:
    """Without the long lists of an evaluation, and with no text of thousands of characters."""
    return {
        str(key)[:100]: value[:2000] if isinstance(value, str) else value
        for key, value in event.items()
        if not isinstance(value, list | dict) or len(json.dumps(value)) < 1000
    }
