"""Processes and their deaths: they are started from a warm fork server, listened to, watched, and reaped."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal.api.messages import Message
from shoal.api.program import Process
from shoal.base.descendants import kill_tree
from shoal.launchers.forkserver import STARTING, context, kill_orphans, warm
from shoal.launchers.links import Death, Link, failure_reason, worker_lines
from shoal.streams.control import ControlEnd, Failure
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from shoal.streams.transports.shm.segment import SegmentHandle
from shoal.workers.context import Life

PATIENCE = 5.0
"""Seconds a process has to stop before it is killed."""
ENDING = 1.0
"""Seconds a process has to end once it has said why: a thread of its environment may hang."""
LOST = 255
"""The exit code of a process whose fork server has died: it may live."""
ATTEMPTS = 20
"""To start a process, a tenth of a second apart."""


@dataclass
class ProcessLink(Link):
    """A process of this machine."""

    running: BaseProcess
    control: ControlEnd

    @property
    def pid(self) -> int | None:
        return self.running.pid


class Supervisor:
    """Holds the processes. `serve` and `order` give the target and the argument of each."""

    def __init__(
        self, serve: Callable[..., None], order: Callable[[Process, int, Life], Any], logs: Path, processes: int
    ) -> None:
        self._serve, self._order, self._logs = serve, order, logs
        self._heartbeats = HeartbeatBoard.create(processes)
        self.links: list[ProcessLink] = []

    @property
    def heartbeats(self) -> SegmentHandle:
        """Where processes say that they are inside their environments."""
        return self._heartbeats.handle

    def start(self, process: Process, number: int, life: Life) -> None:
        """Start a process for the first time."""
        self.links.append(ProcessLink(process, number, life, *self._spawn(process, number, life)))

    def restart(self, link: ProcessLink, life: Life) -> None:
        """Give a process that was reaped a new life."""
        link.life = life
        link.running, link.control = self._spawn(link.process, link.number, life)
        link.reaped = False

    def _spawn(self, process: Process, number: int, life: Life) -> tuple[BaseProcess, ControlEnd]:
        processes = context()
        here, there = processes.Pipe()
        running = processes.Process(
            target=self._serve, args=(self._order(process, number, life), there), name=process.name, daemon=True
        )
        _start(running)
        there.close()
        return running, ControlEnd(here)

    # ------------------------------------------------------------ listening

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a process says something or dies, or one of `others` can be read."""
        ends: list[Any] = [link.control for link in self.links] + [link.running.sentinel for link in self.links]
        wait([*ends, *others], timeout)

    def heard(self) -> Iterator[tuple[Link, Message]]:
        """All that was said since, process by process. Failures are kept with their process."""
        for link in self.links:
            while (said := link.control.take()) is not None:
                if isinstance(said, Failure):
                    link.failed(said)
                else:
                    link.time.add(getattr(said, "metrics", {}))
                    yield link, said

    def deaths(self, patience: float) -> Iterator[Death]:
        """Who is dead, or is killed now because a step of its environments takes longer than `patience`."""
        for link in self.links:
            if link.failure is not None:
                yield Death(link, failure_reason(link.failure), link.life)
            elif (code := link.running.exitcode) is not None:
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                log = self._logs / f"{link.name}.log"
                yield Death(link, f"{link.name} ended {how}: see {log}", link.life)
            elif self.away(link) > patience:
                self.kill(link)
                cause = f"{link.name} was killed: a step took longer than env.timeout = {patience:g} s"
                yield Death(link, cause, link.life)

    def away(self, link: Link) -> float:
        """Seconds that a process has been inside its environments without coming back."""
        return self._heartbeats.away(link.number)

    # ------------------------------------------------------------ ends

    def workers(self) -> list[dict[str, Any]]:
        """A line per worker, for people."""
        return worker_lines(self.links)

    def kill(self, link: ProcessLink) -> None:
        """End a process at once, and what its environments have started."""
        assert link.running.pid is not None, "it was started"
        kill_tree(link.running.pid)

    def reap(self, link: ProcessLink, patience: float = PATIENCE) -> None:
        """Wait for the end of a process, or bring it about. Once is enough."""
        if link.reaped:
            return
        link.running.join(patience if link.failure is None else min(patience, ENDING))
        if link.running.exitcode in (None, LOST):
            self.kill(link)
            link.running.join()
        kill_orphans()
        link.running.close()
        link.control.close()
        link.failure, link.reaped = None, True
        self._heartbeats.clear(link.number)

    def close(self) -> None:
        """See all to their end, which were told to stop."""
        deadline = time.monotonic() + PATIENCE
        for link in self.links:
            self.reap(link, max(0.0, deadline - time.monotonic()))
        self.links = []
        self._heartbeats.close()


def _start(process: BaseProcess) -> None:
    """A fork server that is just dying still takes orders, and obeys none: ask again, until it is seen to be dead and replaced."""
    for attempt in range(ATTEMPTS):
        warm()
        try:
            with STARTING, _without_main():
                process.start()
            return
        except (OSError, EOFError):
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.1)


@contextmanager
def _without_main() -> Iterator[None]:
    """Start a process that does not import the user's script again: nothing in there is needed to work."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
