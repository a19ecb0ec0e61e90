"""Processes and their deaths: hosts are started from a warm fork server, listened to, watched, and buried."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal.api.worker import Report
from shoal.base.errors import InputError, ShoalError
from shoal.launchers.build import Life
from shoal.launchers.forkserver import context, warm
from shoal.launchers.hosts import Host
from shoal.launchers.pulse import PulseBoard
from shoal.monitoring.bottleneck import TimeAccount
from shoal.streams.control import STOP, ControlEnd, Failure

PATIENCE = 5.0
"""Seconds a host has to stop before it is killed."""
LAST_WORDS = 1.0
"""Seconds a host has to end once it has said why: a thread of its world may hang."""
ATTEMPTS = 20
"""To start a process, a tenth of a second apart."""
CRASHES, CRASH_SPAN = 5, 60.0
"""A host may die this often within so many seconds and is started again."""


@dataclass
class Link:
    """One host's process, as the launcher holds it."""

    host: Host
    number: int
    life: Life
    process: BaseProcess
    control: ControlEnd
    deaths: list[float] = field(default_factory=list)
    """When it died, by this process's clock."""
    failure: Failure | None = None
    """Its last words."""
    trace: str = ""
    """The first of the tracebacks that it died with."""
    buried: bool = False
    """Its process is gone, and the next one not there yet."""
    time: TimeAccount = field(default_factory=TimeAccount)
    """Where its workers' time went."""


@dataclass(frozen=True)
class Death:
    """A host that is no more, and why."""

    link: Link
    cause: str
    life: Life
    """That it was: a host that went down with another has begun the next one by the time its own death is looked at."""

    @property
    def over(self) -> bool:
        """It was seen to already."""
        return self.life is not self.link.life


class Supervisor:
    """Holds the processes. `start` gives the target and arguments of a host's process."""

    def __init__(self, serve: Callable[..., None], order: Callable[[Host, int, Life], Any], logs: Path) -> None:
        self._serve, self._order, self._logs = serve, order, logs
        self.links: list[Link] = []

    def start(self, host: Host, number: int, life: Life) -> None:
        """Start a host for the first time."""
        self.links.append(Link(host, number, life, *self._spawn(host, number, life)))

    def restart(self, link: Link, life: Life) -> None:
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
                    link.failure = said
                    link.trace = link.trace or said.trace
                elif isinstance(said, Report):
                    link.time.add(said.metrics)
                    yield link, said

    def deaths(self, pulses: PulseBoard, patience: float) -> Iterator[Death]:
        """Who is dead, or is killed now because a step of its worlds takes longer than `patience`."""
        for link in self.links:
            if link.failure is not None:
                yield Death(link, self._last_words(link.failure), link.life)
            elif (code := link.process.exitcode) is not None:
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                log = self._logs / f"{link.host.name}.log"
                yield Death(link, f"{link.host.name} ended {how}: see {log}", link.life)
            elif pulses.away(link.number) > patience:
                link.process.kill()
                cause = f"{link.host.name} was killed: a step took longer than env.timeout = {patience:g} s"
                yield Death(link, cause, link.life)

    def _last_words(self, failure: Failure) -> str:
        if failure.wrong_input:
            raise InputError(failure.text)
        return failure.text

    # ------------------------------------------------------------ ends

    def workers(self) -> list[dict[str, Any]]:
        """A line per worker, for people: where it lives, how it fares, where its time goes."""
        lines: list[dict[str, Any]] = []
        for link in self.links:
            shares = link.time.shares()
            facts = {"pid": link.process.pid, "state": "alive", "restarts": link.life.incarnation}
            lines += [{"name": j.name, "kind": j.kind, **facts, **shares.get(j.kind, {})} for j in link.host.jobs]
        return lines

    def count_death(self, death: Death) -> None:
        """A host that keeps dying ends the run: the first traceback, then its last words."""
        link, now = death.link, time.monotonic()
        link.deaths = [*(moment for moment in link.deaths if now - moment < CRASH_SPAN), now]
        if len(link.deaths) > CRASHES:
            crashes = f"({len(link.deaths)} crashes in a row: mend that, then go on with --resume)"
            raise ShoalError("\n".join(filter(None, [link.trace.rstrip(), f"{death.cause} {crashes}"])))

    def bury(self, link: Link, patience: float = PATIENCE) -> None:
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

    def close(self) -> None:
        """Tell all to stop, and see to it."""
        for link in self.links:
            link.control.order(STOP)
        deadline = time.monotonic() + PATIENCE
        for link in self.links:
            self.bury(link, max(0.0, deadline - time.monotonic()))
        self.links = []


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
