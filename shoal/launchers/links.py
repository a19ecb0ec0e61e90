"""Hosts as a launcher holds them, whoever runs their processes; and what becomes of those that keep dying."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.base.errors import InputError, ShoalError
from shoal.monitoring.bottleneck import TimeAccount
from shoal.program.build import Life
from shoal.program.hosts import Host
from shoal.streams.control import Failure

CRASHES, CRASH_SPAN = 5, 60.0
"""A host may die this often within so many seconds and is started again."""


@dataclass
class Link:
    """One host, as the launcher holds it."""

    host: Host
    number: int
    life: Life
    deaths: list[float] = field(default_factory=list, kw_only=True)
    """When it died, by this process's clock."""
    failure: Failure | None = field(default=None, kw_only=True)
    """Its last words."""
    trace: str = field(default="", kw_only=True)
    """The first of the tracebacks that it died with."""
    buried: bool = field(default=False, kw_only=True)
    """Its process is gone, and the next one not there yet."""
    time: TimeAccount = field(default_factory=TimeAccount, kw_only=True)
    """Where its workers' time went."""

    @property
    def pid(self) -> int | None:
        """Of its process."""
        return None

    def failed(self, failure: Failure) -> None:
        """Keep its last words."""
        self.failure = failure
        self.trace = self.trace or failure.trace


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


def last_words(failure: Failure) -> str:
    """Why a host ended; what no new life would mend is raised."""
    if failure.wrong_input:
        raise InputError(failure.text)
    return failure.text


def count_death(death: Death) -> None:
    """A host that keeps dying ends the run: the first traceback, then its last words."""
    link, now = death.link, time.monotonic()
    link.deaths = [*(moment for moment in link.deaths if now - moment < CRASH_SPAN), now]
    if len(link.deaths) > CRASHES:
        crashes = f"({len(link.deaths)} crashes in a row: mend that, then go on with --resume)"
        raise ShoalError("\n".join(filter(None, [link.trace.rstrip(), f"{death.cause} {crashes}"])))


def worker_lines(links: Sequence[Link]) -> list[dict[str, Any]]:
    """A line per worker, for people: where it lives, how it fares, where its time goes."""
    lines: list[dict[str, Any]] = []
    for link in links:
        shares = link.time.shares()
        facts = {"pid": link.pid, "state": "alive", "restarts": link.life.incarnation}
        lines += [{"name": j.name, "kind": j.kind, **facts, **shares.get(j.kind, {})} for j in link.host.jobs]
    return lines
