"""A Ray actor that holds the place of one process: it forks the process from a warm fork server, and again after each death.

It outlives what happens to the process, so a new life begins at once; if its machine is lost, Ray starts it on another. It imports
neither torch nor what a process is: those are its fork server's, in memory that every life of the process shares.
"""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection, wait
from typing import Any

import ray

from shoal.launchers.forkserver import context, kill_orphans, preload, start_process, wake, warm
from shoal.launchers.ray.entrance import LIFE, enter

LOOK = 0.5
"""Seconds between two looks at the fork server, which may have been stopped: it alone can tell of a death."""
ANSWER = 0.02
"""Seconds between two looks at the process while an answer for it is on its way."""


class RayHolder:
    """Its methods run one after the other."""

    def __init__(self) -> None:
        preload(LIFE)
        warm()

    def where(self) -> tuple[str, int]:
        """The machine, and this process."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def serve(self, posting: bytes, points: dict[str, Any]) -> str | None:
        """One life of the process, and how it ended; None: by itself. `points`: the MeetingPoints that it may ask for."""
        here, there = context().Pipe()
        process = context().Process(target=enter, args=(posting, there, ray.util.get_node_ip_address()), daemon=True)
        start_process(process)
        there.close()
        desk = _Desk(here, points)
        while process.exitcode is None:
            desk.serve(process.sentinel)
            wake()
        code = process.exitcode
        kill_orphans()
        process.close()
        here.close()
        return (
            None
            if code == 0
            else f"ended {f'by {signal.Signals(-code).name}' if code < 0 else f'with exit code {code}'}"
        )


class _Desk:
    """Answers a process, which does not know Ray: what was left at a point, or that something was left there."""

    def __init__(self, line: Connection, points: dict[str, Any]) -> None:
        self._line, self._points = line, points
        self._open, self._answer = True, None

    def serve(self, sentinel: int) -> None:
        """A moment of it; the shorter, the sooner there is something to do."""
        if self._answer is not None:
            wait([sentinel], ANSWER)
            self._reply()
        elif self._line in wait([sentinel, *([self._line] if self._open else [])], LOOK):
            self._ask()

    def _ask(self) -> None:
        try:
            point, method, args = self._line.recv()
        except (EOFError, OSError):
            self._open = False
            return
        self._answer = getattr(self._points[point], method).remote(*args)

    def _reply(self) -> None:
        if ray.wait([self._answer], timeout=0)[0]:
            answer, self._answer = self._answer, None
            try:
                self._line.send(ray.get(answer))
            except (ray.exceptions.RayError, OSError):  # the point is gone, or the process
                self._open = False
                self._line.close()
