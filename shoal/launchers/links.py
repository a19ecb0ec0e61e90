"""A process as its launcher holds it: which life it is in, why it died, how often that may happen."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.api.experiment import Experiment
from shoal.api.program import Process
from shoal.api.worker import Pulse
from shoal.base.errors import InputError, ShoalError
from shoal.monitoring.bottleneck import TimeAccount
from shoal.monitoring.logs import LOG
from shoal.streams.control import Failure
from shoal.workers.context import Life

CRASHES, CRASH_SPAN = 5, 60.0
"""A process may die this often within so many seconds and is started again."""
SILENT = 3.0
"""Seconds after which people are told how long a process has been silent."""
AT_WORK = 1.0
"""Seconds that nobody is silent for who is well."""
ASLEEP = 5.0
"""Seconds between two looks of the launcher after which it was away itself, by Ctrl-Z for example."""


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


@dataclass(frozen=True)
class Limits:
    """Seconds that a process may be silent."""

    env: float
    """Inside its environments."""
    hang: float
    """Elsewhere."""

    @classmethod
    def of(cls, experiment: Experiment) -> Limits:
        """By `env.timeout` and `placement.hang`."""
        return cls(experiment.env.timeout, experiment.placement.hang)

    def exceeded(self, name: str, pulse: Pulse) -> str | None:
        """Why a process is to be killed, if it is."""
        if pulse.silent <= (self.env if pulse.in_env else self.hang) + pulse.allowed:
            return None
        if pulse.allowed:
            return f"{name} was killed: it was not up within {pulse.silent:.0f} s"
        if pulse.in_env:
            return f"{name} was killed: a step took longer than env.timeout = {self.env:g} s"
        return f"{name} was killed: it gave no sign of life for placement.hang = {self.hang:g} s"


class Attention:
    """Silence counts only while somebody listens: who was stopped for an hour must not take all others for hung."""

    def __init__(self) -> None:
        self._since = self._looked = time.monotonic()

    def look(self) -> None:
        """The launcher looks at its processes."""
        now = time.monotonic()
        if now - self._looked > ASLEEP:
            self._since = now
        self._looked = now

    def heard(self, pulse: Pulse) -> Pulse:
        """The part of a silence that was listened to."""
        return pulse._replace(silent=min(pulse.silent, time.monotonic() - self._since))


def hung_before(pulse: Pulse, seconds: float) -> bool:
    """Whether it was silent already so many seconds ago, when it was told to stop: one that is just ending was not."""
    return not pulse.allowed and pulse.silent > max(SILENT, 2 * pulse.longest, seconds + AT_WORK)


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


def worker_lines(links: Sequence[Link], pulses: Mapping[int, Pulse]) -> list[dict[str, Any]]:
    """A line per worker, for people: where it lives, how it fares, where its time goes. `pulses`: by the numbers of processes."""
    lines: list[dict[str, Any]] = []
    for link in links:
        shares = link.time.shares()
        pulse = pulses[link.number]
        state = (
            "starting" if pulse.allowed else "alive" if pulse.silent < SILENT else f"silent for {pulse.silent:.0f} s"
        )
        facts = {"pid": link.pid, "state": state, "restarts": link.life.incarnation}
        lines += [{"name": w.name, "kind": w.kind, **facts, **shares.get(w.kind, {})} for w in link.process.workers]
    return lines
