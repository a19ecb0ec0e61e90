"""What a launcher of processes is given: streams to look into, and somebody who starts, hears and buries hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from shoal.api.worker import Report
from shoal.launchers.links import Death, Link
from shoal.program.build import Life
from shoal.streams.primitives import Mailbox, Ring
from shoal.streams.sample import Account
from shoal.streams.shared_streams import Counters


class Agreement(Protocol):
    """A tally, as its owner has it."""

    def abandon(self) -> None:
        """Whoever waits there waits no longer."""

    def renew(self) -> None:
        """New participants may begin."""


class HostStreams(Protocol):
    """The streams of a run, as its launcher has them."""

    @property
    def tallies(self) -> Mapping[str, Agreement]:
        """Where replicas in step meet."""

    def ring(self, name: str) -> Ring:
        """A ring that the launcher itself writes."""

    def counters(self, name: str) -> Counters:
        """How far any ring is."""

    def mailbox(self, name: str) -> Mailbox:
        """The mailbox of that name."""

    def accounts(self) -> Account:
        """What became of all rows."""

    def close(self) -> None:
        """Give the memory back."""


class Supervision(Protocol):
    """Who starts, hears, watches and buries the hosts. Links are of its own kind."""

    @property
    def links(self) -> Sequence[Link]:
        """All hosts, trainers first."""

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a host says something or dies, or one of `others` can be read."""

    def heard(self) -> Iterator[tuple[Link, Report]]:
        """All that was said since, host by host."""

    def deaths(self, patience: float) -> Iterator[Death]:
        """Who is dead, or is killed now because a step of its worlds takes longer than `patience`."""

    def away(self, link: Any) -> float:
        """Seconds that a host has been at its worlds without coming back."""

    def kill(self, link: Any) -> None:
        """End a host at once."""

    def bury(self, link: Any) -> None:
        """See a host's process to its end."""

    def restart(self, link: Any, life: Life) -> None:
        """Give a buried host a new life."""

    def workers(self) -> list[dict[str, Any]]:
        """A line per worker, for people."""

    def close(self) -> None:
        """Tell all to stop, and see to it."""
