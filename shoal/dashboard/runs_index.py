"""All runs below ROOT: their records, looked at once a second at most, and what changed since somebody asked last."""

from __future__ import annotations

import threading
import time
from typing import Any

from shoal.analysis.run_list import fitting
from shoal.dashboard.below import Root
from shoal.dashboard.run_record import RunRecord

BETWEEN = 1.0
"""Seconds between two looks, however many ask."""
MOST = 5000
"""Runs that are listed."""


class RunsIndex:
    """Shared by all pages. Each change has a number, so that a page can be told what it does not know yet."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._runs: dict[str, RunRecord] = {}
        self._changed: dict[str, int] = {}
        """Run -> the number of its last change; also of those that are gone."""
        self._number = 0
        self._looked_at = float("-inf")

    def look(self) -> None:
        """Bring the records up to date."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at < BETWEEN:
                return
            self._looked_at = now
            found = set(self._find())
            for name in self._runs.keys() - found:
                self._forget(name)
            for name in found:
                run = self._runs.get(name) or RunRecord(self._root, name)
                try:
                    if run.look(now):
                        self._note(name)
                    self._runs[name] = run
                except FileNotFoundError:  # it is being made or removed
                    self._forget(name)

    def _find(self) -> list[str]:
        names = (
            f"{experiment}/{trial}"
            for experiment in self._root.names(folders=True)
            for trial in self._root.names(experiment, folders=True)
        )
        return [name for name, _ in zip(names, range(MOST), strict=False)]

    def _note(self, name: str) -> None:
        self._number += 1
        self._changed[name] = self._number

    def _forget(self, name: str) -> None:
        if self._runs.pop(name, None) is not None:
            self._note(name)

    def changes(self, since: int) -> tuple[int, list[dict[str, Any]], list[str]]:
        """The newest number, the records that changed after `since`, and the runs that are gone."""
        self.look()
        with self._lock:
            names = [name for name, number in self._changed.items() if number > since]
            there = [self._runs[name].shown for name in names if name in self._runs]
            return self._number, there, [name for name in names if name not in self._runs]

    def fitting(self, words: list[str]) -> list[str]:
        """The runs that all words fit, as for `shoal runs`; an InputError says what is wrong with a word."""
        self.look()
        with self._lock:
            records = [(run.shown, run.settings) for run in self._runs.values()]
        return [record["run"] for record in fitting(words, records)]

    def run(self, name: str) -> RunRecord:
        """One of them, as it was looked at last; FileNotFoundError where there is none."""
        self.look()
        with self._lock:
            if name not in self._runs:
                raise FileNotFoundError(name)
            return self._runs[name]

    def settings(self, name: str) -> dict[str, Any]:
        """Of one run."""
        return self.run(name).settings

    def record(self, name: str) -> dict[str, Any]:
        """Of one run."""
        return self.run(name).shown

    def sketch(self, name: str, metric: str, points: int) -> tuple[tuple[int, int], dict[str, Any]]:
        """A coarse curve of one run, and which state of its file it is of."""
        run = self.run(name)
        with self._lock:
            return (run.sketch.inode, run.sketch.end), run.sketch.curves([metric], points)
