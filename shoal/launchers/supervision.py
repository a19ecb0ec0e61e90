"""What a launcher of processes is given: streams to look into, and somebody who starts, hears and reaps processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from shoal.api.messages import Message
from shoal.api.worker import Pulse
from shoal.launchers.links import Death, Limits, Link
from shoal.streams.primitives import Mailbox, Ring
from shoal.streams.sample import Account
from shoal.streams.shared_streams import Counters
from shoal.workers.context import Life


class Agreement(Protocol):
    """A tally, as its owner has it."""

    def abandon(self) -> None:
        """Whoever waits there waits no longer."""

    def renew(self) -> None:
        """New participants may begin."""


class ProcessStreams(Protocol):
    """The streams of a run, as its launcher has them."""

    @property
    def tallies(self) -> Mapping[str, Agreement]:
        """Where replicas in step meet."""

    def ring(self, name: str) -> Ring:
        """A ring that the controller writes."""

    def counters(self, name: str) -> Counters:
        """How far a ring is."""

    def mailbox(self, name: str) -> Mailbox:
        """The mailbox of that name."""

    def accounts(self) -> Account:
        """What became of all rows."""

    def close(self) -> None:
        """Give the memory back."""


class Supervision(Protocol):
    """Who starts, hears, watches and reaps the processes. Links are of its own kind."""

    @property
    def links(self) -> Sequence[Link]:
        """All processes, trainers first."""

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a process says something or dies, or one of `others` can be read."""

    def heard(self) -> Iterator[tuple[Link, Message]]:
        """All that was said since, process by process."""

    def deaths(self, limits: Limits) -> Iterator[Death]:
        """Who is dead, or is killed now because it was silent for too long."""

    def pulse(self, link: Any) -> Pulse:
        """The signs of life of a process."""

    def kill(self, link: Any) -> None:
        """End a process at once."""

    def reap(self, link: Any) -> None:
        """See a process to its end."""

    def restart(self, link: Any, life: Life) -> None:
        """Give a process that was reaped a new life."""

    def workers(self) -> list[dict[str, Any]]:
        """A line per worker, for people."""

    def close(self) -> None:
        """See all to their end, which were told to stop."""
