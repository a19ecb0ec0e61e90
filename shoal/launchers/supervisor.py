"""Processes and their deaths: hosts are started from a warm fork server, listened to, watched, and buried."""

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

from shoal.api.worker import Report
from shoal.launchers.forkserver import context, warm
from shoal.launchers.links import Death, Link, last_words, worker_lines
from shoal.program.build import Life
from shoal.program.hosts import Host
from shoal.streams.control import STOP, ControlEnd, Failure
from shoal.streams.transports.shm.pulse import PulseBoard
from shoal.streams.transports.shm.segment import SegmentHandle

PATIENCE = 5.0
"""Seconds a host has to stop before it is killed."""
LAST_WORDS = 1.0
"""Seconds a host has to end once it has said why: a thread of its world may hang."""
ATTEMPTS = 20
"""To start a process, a tenth of a second apart."""


@dataclass
class ProcessLink(Link):
    """A host in a process of this machine."""

    process: BaseProcess
    control: ControlEnd

    @property
    def pid(self) -> int | None:
        return self.process.pid


class Supervisor:
    """Holds the processes. `serve` and `order` give the target and the argument of a host's process."""

    def __init__(
        self, serve: Callable[..., None], order: Callable[[Host, int, Life], Any], logs: Path, hosts: int
    ) -> None:
        self._serve, self._order, self._logs = serve, order, logs
        self._pulses = PulseBoard.create(hosts)
        self.links: list[ProcessLink] = []

    @property
    def pulses(self) -> SegmentHandle:
        """Where hosts note that they are at their worlds."""
        return self._pulses.handle

    def start(self, host: Host, number: int, life: Life) -> None:
        """Start a host for the first time."""
        self.links.append(ProcessLink(host, number, life, *self._spawn(host, number, life)))

    def restart(self, link: ProcessLink, life: Life) -> None:
        """Give a buried host a new life."""
        link.life = life
        link.process, link.control = self._spawn(link.host, link.number, life)
        link.buried = False

    def _spawn(self, host: Host, number: int, life: Life) -> tuple[BaseProcess, ControlEnd]:
        processes = context()
        here, there = processes.Pipe()
        process = processes.Process(
            target=self._serve, args=(self._order(host, number, life), there), name=host.name, daemon=True
        )
        _start(process)
        there.close()
        return process, ControlEnd(here)

    # ------------------------------------------------------------ listening

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a host says something or dies, or one of `others` can be read."""
        ends: list[Any] = [link.control for link in self.links] + [link.process.sentinel for link in self.links]
        wait([*ends, *others], timeout)

    def heard(self) -> Iterator[tuple[Link, Report]]:
        """All that was said since, host by host. Last words are kept with their host."""
        for link in self.links:
            while (said := link.control.take()) is not None:
                if isinstance(said, Failure):
                    link.failed(said)
                elif isinstance(said, Report):
                    link.time.add(said.metrics)
                    yield link, said

    def deaths(self, patience: float) -> Iterator[Death]:
        """Who is dead, or is killed now because a step of its worlds takes longer than `patience`."""
        for link in self.links:
            if link.failure is not None:
                yield Death(link, last_words(link.failure), link.life)
            elif (code := link.process.exitcode) is not None:
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                log = self._logs / f"{link.host.name}.log"
                yield Death(link, f"{link.host.name} ended {how}: see {log}", link.life)
            elif self.away(link) > patience:
                link.process.kill()
                cause = f"{link.host.name} was killed: a step took longer than env.timeout = {patience:g} s"
                yield Death(link, cause, link.life)

    def away(self, link: Link) -> float:
        """Seconds that a host has been at its worlds without coming back."""
        return self._pulses.away(link.number)

    # ------------------------------------------------------------ ends

    def workers(self) -> list[dict[str, Any]]:
        """A line per worker, for people."""
        return worker_lines(self.links)

    def kill(self, link: ProcessLink) -> None:
        """End a host at once."""
        link.process.kill()

    def bury(self, link: ProcessLink, patience: float = PATIENCE) -> None:
        """Wait for the end of a process, or bring it about. Once is enough."""
        if link.buried:
            return
        link.process.join(patience if link.failure is None else min(patience, LAST_WORDS))
        if link.process.exitcode is None:
            link.process.kill()
            link.process.join()
        link.process.close()
        link.control.close()
        link.failure, link.buried = None, True
        self._pulses.clear(link.number)

    def close(self) -> None:
        """Tell all to stop, and see to it."""
        for link in self.links:
            link.control.order(STOP)
        deadline = time.monotonic() + PATIENCE
        for link in self.links:
            self.bury(link, max(0.0, deadline - time.monotonic()))
        self.links = []
        self._pulses.close()


def _start(process: BaseProcess) -> None:
    """A fork server that is just dying still takes orders, and obeys none: ask again, until it is seen to be dead and replaced."""
    for attempt in range(ATTEMPTS):
        warm()
        try:
            with _without_main():
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
