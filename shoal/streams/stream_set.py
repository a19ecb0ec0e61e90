"""The streams of a Program as one process has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shoal.api.program import MailboxStream, Program, RingStream, SharedStream, TallyStream
from shoal.streams.primitives import Mailbox, Ring, Tally, Waiter
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing, NoWaiting
from shoal.streams.transports.memory_tally import MemoryTally
from shoal.streams.transports.shm.shared_block import SharedBlock


class Streams(Protocol):
    """The streams as one process has them."""

    waiter: Waiter
    wake: Callable[[], None] | None
    """What a thread of this process calls to end a wait; None: nobody ever waits here."""

    def ring(self, name: str) -> Ring:
        """The ring of that name."""

    def mailbox(self, name: str) -> Mailbox:
        """The mailbox of that name."""

    def tally(self, name: str) -> Tally:
        """The tally of that name."""

    def shared(self, name: str) -> SharedBlock | None:
        """The memory of that name that replicas share; None: this process has all of them."""


class MemoryStreams(Streams):
    """All streams inside one process."""

    def __init__(self, program: Program) -> None:
        self.waiter, self.wake = NoWaiting(), None
        self._rings: dict[str, MemoryRing] = {}
        self._boxes: dict[str, MemoryMailbox] = {}
        self._tallies: dict[str, MemoryTally] = {}
        for name, stream in program.streams.items():
            match stream:
                case RingStream():
                    self._rings[name] = MemoryRing(stream.layout, stream.slots)
                case MailboxStream():
                    self._boxes[name] = MemoryMailbox(stream.nbytes, stream.versions)
                case SharedStream():
                    self._boxes[name] = MemoryMailbox(stream.nbytes, 1)
                case TallyStream():
                    self._tallies[name] = MemoryTally(len(stream.ranks), stream.nbytes)

    def ring(self, name: str) -> Ring:
        return self._rings[name]

    def mailbox(self, name: str) -> Mailbox:
        return self._boxes[name]

    def tally(self, name: str) -> Tally:
        return self._tallies[name]

    def shared(self, name: str) -> SharedBlock | None:
        """Replicas of one process that share parameters share the algorithm itself."""
        return None
