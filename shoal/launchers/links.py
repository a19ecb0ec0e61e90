"""A process as its launcher holds it: which life it is in, why it died, how often that may happen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.api.program import Process
from shoal.base.errors import InputError, ShoalError
from shoal.monitoring.bottleneck import TimeAccount
from shoal.monitoring.logs import LOG
from shoal.streams.control import Failure
from shoal.workers.context import Life

CRASHES, CRASH_SPAN = 5, 60.0
"""A process may die this often within so many seconds and is started again."""


@dataclass
class Link:
    """One process, as the launcher holds it."""

    process: Process
    number: int
    life: Life
    deaths: list[float] = field(default_factory=list, kw_only=True)
    """When it died, by this process's clock."""
    failure: Failure | None = field(default=None, kw_only=True)
    """What it said before it ended."""
    trace: str = field(default="", kw_only=True)
    """The first of the tracebacks that it died with."""
    reaped: bool = field(default=False, kw_only=True)
    """It is dead, and the next life is not there yet."""
    time: TimeAccount = field(default_factory=TimeAccount, kw_only=True)
    """Where its workers' time went."""

    @property
    def name(self) -> str:
        """Of the process."""
        return self.process.name

    @property
    def pid(self) -> int | None:
        """Of its process."""
        return None

    def failed(self, failure: Failure) -> None:
        """Keep what it said."""
        self.failure = failure
        self.trace = self.trace or failure.trace


@dataclass(frozen=True)
class Death:
    """A process that is no more, and why."""

    link: Link
    cause: str
    life: Life
    """That it was: a process that went down with another has begun the next one by the time its own death is looked at."""

    @property
    def over(self) -> bool:
        """It was seen to already."""
        return self.life is not self.link.life


def failure_reason(failure: Failure) -> str:
    """Why a process ended; what no new life would mend is raised."""
    if failure.wrong_input:
        raise InputError(failure.text)
    return failure.text


def count_death(death: Death) -> None:
    """A process that keeps dying ends the run with the reason; its first traceback goes to the log."""
    link, now = death.link, time.monotonic()
    link.deaths = [*(moment for moment in link.deaths if now - moment < CRASH_SPAN), now]
    if len(link.deaths) > CRASHES:
        crashes = f"({len(link.deaths)} crashes in a row: mend that, then go on with --resume)"
        LOG.error("%s keeps dying, first by\n%s", link.name, link.trace.rstrip())
        raise ShoalError(f"{death.cause} {crashes}")


def worker_lines(links: Sequence[Link]) -> list[dict[str, Any]]:
    """A line per worker, for people: where it lives, how it fares, where its time goes."""
    lines: list[dict[str, Any]] = []
    for link in links:
        shares = link.time.shares()
        facts = {"pid": link.pid, "state": "alive", "restarts": link.life.incarnation}
        lines += [{"name": w.name, "kind": w.kind, **facts, **shares.get(w.kind, {})} for w in link.process.workers]
    return lines
