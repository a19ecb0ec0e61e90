"""One run of a case, seen from outside: its rows of numbers, its workers, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

from sites import HERE, Site

from shoal.monitoring.jsonl import newest_first
from shoal.monitoring.run_folder import RunFolder
from shoal.streams.sample import OUTCOMES

COMMON = [
    f"env.id={HERE / 'chaotic.py'}:Chaos", "checkpoint.every=5s", "stop.return=null", "stop.steps=null", "log.tensorboard=false",
]  # fmt: skip
LIMIT = 60.0
"""Seconds after which a run that makes no update, or does not end, hangs."""
GRACE = 5.0
"""Seconds in which everything of a run is gone once its main process has ended."""
FEW = 12
"""So many more open files than at first are no leak yet."""


class LiveRun:
    """It is started at once. `begun` and `last`: time and row of the second update, and of the newest that was seen."""

    def __init__(self, site: Site, recipe: str, words: list[str], seconds: float, seed: int) -> None:
        self._site, self._before = site, site.left()
        subprocess.run(["rm", "-rf", str(site.disk / "runs")], check=True)
        self.folder = RunFolder(site.disk / "runs" / recipe / "one")
        self._log = site.folder / "log"
        self._log.unlink(missing_ok=True)
        self._settings = [*COMMON, *site.words, *words, f"stop.seconds={seconds:g}"]
        self._argv = ["train", recipe, "--trial", "one"]
        self.process = site.start([*self._argv, "--seed", str(seed), *self._settings], self._log)
        self.begun: tuple[float, dict[str, Any]] | None = None
        self.last: tuple[float, dict[str, Any]] | None = None
        self._files = 0

    def row(self) -> dict[str, Any] | None:
        """The newest row of numbers; None: there is none yet."""
        row = next(newest_first(self.folder.metrics), None) if self.folder.metrics.exists() else None
        if row is not None and (self.last is None or row["update"] != self.last[1]["update"]):
            self.last = (time.monotonic(), row)
            if self.begun is None and row["update"] >= 2:
                self.begun, self._files = self.last, self._site.descriptors(self.process)
        return row

    @property
    def update(self) -> int:
        row = self.row()
        return 0 if row is None else int(row["update"])

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def until_update(self, update: int, seconds: float = LIMIT) -> bool:
        """False: it was not made in time, or the run has ended."""
        return self.until(lambda: self.update >= update, seconds)

    def workers(self) -> list[dict[str, Any]]:
        """None of them where it does not answer now."""
        status = self._site.status(self.folder) if self.folder.path.is_dir() else None
        return [line for line in (status or {}).get("workers", []) if line.get("pid")]

    def go_on(self) -> None:
        """Start it again where it ended."""
        self.process = self._site.start([*self._argv, "--resume"], self._log)

    def said(self) -> str:
        return self._log.read_text()[-400:]

    def end(self) -> list[str]:
        """Wait for the end; what is wrong then."""
        files = 0
        deadline = time.monotonic() + LIMIT + float(self._settings[-1].partition("=")[2])
        while not self.ended and time.monotonic() < deadline:
            self.row()
            files = self._site.descriptors(self.process) or files
            time.sleep(0.2)
        if not self.ended:
            self.process.kill()
            return [f"it did not end: {self.said()}"]
        self.row()
        problems = [f"exit code {self.process.returncode}: {self.said()}"] if self.process.returncode else []
        if files > self._files + FEW:
            problems.append(f"open files grew from {self._files} to {files}")
        deadline = time.monotonic() + GRACE
        while (left := self._site.left() - self._before) and time.monotonic() < deadline:
            time.sleep(0.1)
        return problems + [f"{thing} was left" for thing in sorted(left)] + self._unbalanced()

    def rate(self) -> float:
        """Environment steps per second, from the second update to the last."""
        if self.begun is None or self.last is None or self.last[0] <= self.begun[0]:
            return 0.0
        return (self.last[1]["step"] - self.begun[1]["step"]) / (self.last[0] - self.begun[0])

    def _unbalanced(self) -> list[str]:
        for line in self.folder.metrics.read_text().splitlines() if self.folder.metrics.exists() else []:
            row = json.loads(line)
            settled = sum(row.get(f"rows/{name}", 0) for name in OUTCOMES)
            if row["rows/produced"] != settled + row["rows/in_flight"]:
                return [f"rows do not balance at update {row['update']}"]
        return []

    def went_on_at(self) -> list[int]:
        """The versions that trainers went on at."""
        return [int(found.replace(",", "")) for found in re.findall(r"goes on at version ([\d,]+)", self._events())]

    def restarts(self) -> int:
        """Of all workers until now."""
        return len(re.findall(r"was started again", self._events()))

    def starts(self) -> int:
        """Of the run itself."""
        return self._events().count('"kind": "start"')

    def until(self, condition: Callable[[], bool], seconds: float = LIMIT) -> bool:
        """False: not in time, or the run has ended."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.ended or time.monotonic() > deadline:
                return condition()
            time.sleep(0.05)
        return True

    def _events(self) -> str:
        return self.folder.events.read_text() if self.folder.events.exists() else ""
