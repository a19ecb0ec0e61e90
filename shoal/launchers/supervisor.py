"""Processes and their deaths: they are started from a warm fork server, listened to, watched, and reaped."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from shoal.api.messages import Message
from shoal.api.program import Process
from shoal.api.worker import Pulse
from shoal.base.descendants import kill_tree
from shoal.launchers.forkserver import context, kill_orphans, start_process, wake
from shoal.launchers.links import SILENT, Attention, Death, Limits, Link, failure_reason, hung_before, worker_lines
from shoal.streams.control import ControlEnd, Failure
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from shoal.streams.transports.shm.segment import SegmentHandle
from shoal.workers.context import Life

PATIENCE = 4.0
"""Seconds a process has to stop before it is killed."""
LOOK = 0.2
"""Seconds between two looks at who hangs, in a run that ends."""
ENDING = 1.0
"""Seconds a process has to end once it has said why: a thread of its environment may hang."""
LOST = 255
"""The exit code of a process whose fork server has died: it may live."""
ARRIVING = 20.0
"""Seconds that a process may take until its own code runs, on top of what it has elsewhere."""


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
        self._attention = Attention()
        self.links: list[ProcessLink] = []

    @property
    def heartbeats(self) -> SegmentHandle:
        """Where processes give signs of life."""
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
        self._heartbeats.place(number).begin(ARRIVING, in_env=False)  # in its place, until it does so itself
        running = processes.Process(
            target=self._serve, args=(self._order(process, number, life), there), name=process.name, daemon=True
        )
        start_process(running)
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

    def deaths(self, limits: Limits) -> Iterator[Death]:
        """Who is dead, or is killed now because it was silent for too long."""
        self._attention.look()
        for link in self.links:
            if link.failure is not None:
                yield Death(link, failure_reason(link.failure), link.life)
            elif (code := link.running.exitcode) is not None:
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                log = self._logs / f"{link.name}.log"
                yield Death(link, f"{link.name} ended {how}: see {log}", link.life)
            elif (cause := limits.exceeded(link.name, self.pulse(link))) is not None:
                self.kill(link)
                yield Death(link, cause, link.life)

    def pulse(self, link: Link) -> Pulse:
        """The signs of life of a process."""
        return self._attention.heard(self._heartbeats.pulse(link.number))

    # ------------------------------------------------------------ ends

    def workers(self) -> list[dict[str, Any]]:
        """A line per worker, for people."""
        return worker_lines(self.links, {link.number: self.pulse(link) for link in self.links})

    def kill(self, link: ProcessLink) -> None:
        """End a process at once, and what its environments have started."""
        assert link.running.pid is not None, "it was started"
        kill_tree(link.running.pid)

    def reap(self, link: ProcessLink, patience: float = PATIENCE) -> None:
        """Wait for the end of a process, or bring it about. Once is enough. One that is silent is not waited for."""
        if link.reaped:
            return
        wake()
        if self.pulse(link).silent > SILENT:
            self.kill(link)
        link.running.join(patience if link.failure is None else min(patience, ENDING))
        if link.running.exitcode in (None, LOST):
            self.kill(link)
            link.running.join(PATIENCE)
        kill_orphans()
        if link.running.exitcode is not None:  # else the fork server hangs, which is the one who knows
            link.running.close()
        link.control.close()
        link.failure, link.reaped = None, True
        self._heartbeats.clear(link.number)

    def _living(self) -> list[ProcessLink]:
        return [link for link in self.links if not link.reaped and link.running.exitcode is None]

    def close(self) -> None:
        """See all to their end, which were told to stop; who hung before that is not waited for."""
        wake()
        told = time.monotonic()
        while (left := self._living()) and (passed := time.monotonic() - told) < PATIENCE:
            for link in left:
                if hung_before(self.pulse(link), passed):
                    self.kill(link)
                while link.control.take() is not None:  # who is in the middle of a long message ends after it
                    continue
            ends: list[Any] = [end for link in left for end in (link.control, link.running.sentinel)]
            wait(ends, LOOK)
        for link in self.links:
            self.reap(link, 0.0)
        self.links = []
        self._heartbeats.close()
