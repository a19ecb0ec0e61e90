"""The process that runs the commands of `log.notify`: it hears how far the run is, and sees it end, stand still or die."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

from shoal.base.duration import format_duration
from shoal.monitoring.companion import MainProcess, answer

LIMIT = 20.0
"""Seconds that a command has."""
LOOK = 1.0
"""Seconds between two looks at the clock."""


class Watch:
    """Facts come in; events go out, as commands."""

    def __init__(self, main: MainProcess) -> None:
        self._main, order = main, main.order
        self._commands, self._after, self._facts = order["commands"], order["after"], order["facts"]
        self._now: dict[str, Any] = {"step": 0, "update": 0, "state": "starting"}
        self._moved = time.monotonic()
        self._told = False

    def work(self) -> None:
        """Until the run is over."""
        while True:
            for said in self._main.wait(min(LOOK, self._after / 4)):
                if "end" in said:
                    self._run(said["end"], said["reason"])
                    return
                self._take(said)
            if not self._main.lives:
                self._run("death", "the main process of the run was killed or crashed: go on with --resume")
                return
            if not self._told and time.monotonic() - self._moved >= self._after:
                self._told = True
                span = format_duration(self._after)
                self._run("stalled", f"no update for {span} ({self._now['state']})")

    def _take(self, said: dict[str, Any]) -> None:
        """A run that is paused stands still because somebody wants it."""
        if said["update"] != self._now["update"] or said["state"] == "paused":
            self._moved, self._told = time.monotonic(), False
        self._now |= said

    def _run(self, event: str, reason: str) -> None:
        """All commands at once; what becomes of each is told, if the main process is there to hear it, and printed."""
        facts = {
            **self._facts,
            "EVENT": event,
            "REASON": reason,
            "STEP": self._now["step"],
            "UPDATE": self._now["update"],
        }
        environment = {**os.environ, **{f"SHOAL_{name}": str(value) for name, value in facts.items()}}
        deadline = time.monotonic() + LIMIT
        started = [(command, _start(command, environment)) for command in self._commands]
        for command, process in started:
            problem = process if isinstance(process, str) else _outcome(process, deadline)
            if problem is not None:
                line = f"log.notify: {command[0]} {problem}"
                print(line, flush=True)
                self._main.send({"problem": line})
        self._main.send({"notified": event})


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes] | str:
    try:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, process_group=0)
    except OSError as error:
        return f"cannot be run: {error.strerror}"


def _outcome(process: subprocess.Popen[bytes], deadline: float) -> str | None:
    """None: it went well."""
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"took longer than {LIMIT:g} s and was killed"
    return None if code == 0 else f"failed with exit code {code}"


def main() -> None:
    """For `Companion`."""
    Watch(answer(niceness=0)).work()
