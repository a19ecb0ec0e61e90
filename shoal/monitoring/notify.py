"""Commands that are run when something happens to a run: what the main process does for it. They run in `notify_watch`, which is
there when the main process is not."""

from __future__ import annotations

import time

from shoal.monitoring.companion import Companion
from shoal.monitoring.logs import LOG
from shoal.monitoring.notify_watch import LIMIT
from shoal.monitoring.run_folder import RunFolder

BEAT = 1.0
"""Seconds between two reports of how far the run is."""


class Notifier:
    """Tells the watch how far the run is, and its end. `name`: what it is called, where that is not the run's own name."""

    def __init__(self, folder: RunFolder, commands: list[list[str]], after: float, name: str | None = None) -> None:
        self._folder = folder
        self._beat = 0.0
        facts = {"RUN": name or folder.name, "FOLDER": str(folder.path.resolve())}
        order = {"commands": commands, "after": after, "facts": facts}
        self.companion = Companion("shoal.monitoring.notify_watch", order, folder.logs / "notify.log")

    def progress(self, step: int, update: int, state: str) -> None:
        """Where the run stands. Never waits."""
        if time.monotonic() - self._beat >= BEAT:
            self._beat = time.monotonic()
            self.companion.send({"step": step, "update": update, "state": state})

    def poll(self) -> None:
        """Take what the watch says. Never waits."""
        self._hear(self.companion.poll())

    def _hear(self, messages: list[dict[str, str]]) -> None:
        for said in messages:
            if "problem" in said:
                LOG.warning("%s: see %s", said["problem"], self._folder.logs / "notify.log")
                self._folder.event("notify", problem=said["problem"])
            else:
                self._folder.event("notify", told=said["notified"])

    def end(self, event: str, reason: str, step: int, update: int) -> None:
        """It is over: `end`, or `error`."""
        self.companion.send({"step": step, "update": update, "state": "ended"})
        self.companion.send({"end": event, "reason": reason})

    def wait(self, seconds: float = LIMIT + 2) -> None:
        """Until the commands are through, or the time is over."""
        self._hear(self.companion.wait(seconds))
        self.companion.close()
