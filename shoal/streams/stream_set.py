"""All streams of a Program as one process has them, by name; and the ones of a run that is one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shoal.streams.plans import Wiring
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

    def publisher(self, name: str, rank: int) -> Mailbox:
        """The mailbox as one replica of its writer has it."""

    def tally(self, name: str) -> Tally:
        """The tally of that name."""

    def shared(self, name: str) -> SharedBlock | None:
        """The memory that replicas train in, if those of that name share one."""


class MemoryStreams(Streams):
    """All streams inside one process, the controller's ends among them."""

    def __init__(self, wiring: Wiring) -> None:
        self.waiter, self.wake = NoWaiting(), None
        self._rings = {name: MemoryRing(plan.layout, plan.slots) for name, plan in wiring.rings.items()}
        self._boxes = {name: MemoryMailbox(plan.nbytes, plan.versions) for name, plan in wiring.boxes.items()}
        self._boxes |= {name: MemoryMailbox(plan.nbytes, 1) for name, plan in wiring.shared.items()}
        self._tallies = {name: MemoryTally(plan.ranks, plan.nbytes) for name, plan in wiring.tallies.items()}

    def ring(self, name: str) -> Ring:
        return self._rings[name]

    def mailbox(self, name: str) -> Mailbox:
        return self._boxes[name]

    def tally(self, name: str) -> Tally:
        return self._tallies[name]

    def publisher(self, name: str, rank: int) -> Mailbox:
        return self._boxes[name]

    def shared(self, name: str) -> None:
        """Replicas of one process that share parameters share the algorithm itself."""
