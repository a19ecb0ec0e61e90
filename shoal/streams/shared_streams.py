"""The streams of a Program in shared memory: made and owned by the launcher, attached by each process as far as it needs them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from shoal.streams.plans import CONTROLLER, Wiring
from shoal.streams.primitives import Mailbox, Ring, Tally
from shoal.streams.sample import NOTHING, Account, account
from shoal.streams.stream_set import Streams
from shoal.streams.transports.shm.doorbell import Doorbell
from shoal.streams.transports.shm.mailbox import MailboxHandle, ShmMailbox
from shoal.streams.transports.shm.ring import RingHandle, ShmRing
from shoal.streams.transports.shm.segment import SegmentHandle
from shoal.streams.transports.shm.shared_block import SharedBlock, SharedBlockHandle
from shoal.streams.transports.shm.tally import ShmTally, TallyHandle


class Meeting(Protocol):
    """A tally that is not in shared memory: how one rank joins it."""

    def join(self) -> Tally:
        """This rank's end."""


class StreamHandles(NamedTuple):
    """What a process needs to attach: numbers and text."""

    bell: SegmentHandle
    rings: dict[str, RingHandle]
    boxes: dict[str, MailboxHandle]
    tallies: dict[str, TallyHandle | Meeting]
    shared: dict[str, SharedBlockHandle]


class Counters(NamedTuple):
    """How far a ring is."""

    posted: int
    taken: int


class SharedStreams:
    """The launcher's: it owns the memory, and a doorbell for every process and one for itself."""

    def __init__(self, wiring: Wiring, processes: Sequence[str]) -> None:
        self._wiring = wiring
        self._bells = bells = {name: Doorbell.create() for name in (*processes, CONTROLLER)}
        self._rings = {
            name: ShmRing(plan.layout, plan.slots, reader_bell=bells[plan.reader], writer_bell=bells[plan.writer])
            for name, plan in wiring.rings.items()
        }
        self._boxes = {
            name: ShmMailbox(plan.nbytes, plan.versions, bells=[bells[user] for user in plan.users])
            for name, plan in wiring.boxes.items()
        }
        self.tallies = {name: ShmTally(plan.ranks, plan.nbytes) for name, plan in wiring.tallies.items()}
        self._shared = {
            name: SharedBlock(plan.nbytes, plan.replicas, plan.beside) for name, plan in wiring.shared.items()
        }

    def ring(self, name: str) -> Ring:
        """The ring of that name."""
        return self._rings[name]

    def counters(self, name: str) -> Counters:
        """How far a ring is."""
        return Counters(self._rings[name].posted, self._rings[name].taken)

    def mailbox(self, name: str) -> Mailbox:
        """The mailbox of that name."""
        return self._shared[name] if name in self._shared else self._boxes[name]

    def shared(self, name: str) -> SharedBlock | None:
        """The memory that replicas train in, if those of that name share one."""
        return self._shared.get(name)

    def accounts(self) -> Account:
        """What became of all rows."""
        counted = (self._rings[name] for name, plan in self._wiring.rings.items() if plan.counted)
        return sum((account(ring) for ring in counted), NOTHING)

    def handles(self, process: str) -> StreamHandles:
        """What one process uses."""
        rings = {
            name: self._rings[name].handle
            for name, plan in self._wiring.rings.items()
            if process in (plan.writer, plan.reader)
        }
        boxes = {name: self._boxes[name].handle for name, plan in self._wiring.boxes.items() if process in plan.users}
        tallies: dict[str, TallyHandle | Meeting] = {name: tally.handle for name, tally in self.tallies.items()}
        shared = {name: block.handle for name, block in self._shared.items()}
        return StreamHandles(self._bells[process].handle, rings, boxes, tallies, shared)

    def close(self) -> None:
        """Give the memory back."""
        for ring in self._rings.values():
            ring.close()
        for box in self._boxes.values():
            box.close()
        for tally in self.tallies.values():
            tally.close()
        for shared in self._shared.values():
            shared.close()
        for bell in self._bells.values():
            bell.close()


class AttachedStreams(Streams):
    """A process's: opened when first asked for."""

    def __init__(self, handles: StreamHandles, incarnation: int) -> None:
        self._handles, self._incarnation = handles, incarnation
        self.waiter = Doorbell.attach(handles.bell)
        self.wake = self.waiter.ring
        self._rings: dict[str, ShmRing] = {}
        self._boxes: dict[str, ShmMailbox] = {}
        self._shared: dict[str, SharedBlock] = {}

    def ring(self, name: str) -> Ring:
        if name not in self._rings:
            self._rings[name] = ShmRing.attach(
                self._handles.rings[name], incarnation=self._incarnation, bells=[self.waiter]
            )
        return self._rings[name]

    def mailbox(self, name: str) -> Mailbox:
        if name in self._handles.shared:
            return self._block(name)
        if name not in self._boxes:
            self._boxes[name] = ShmMailbox.attach(self._handles.boxes[name])
        return self._boxes[name]

    def _block(self, name: str) -> SharedBlock:
        if name not in self._shared:
            self._shared[name] = SharedBlock.attach(self._handles.shared[name])
        return self._shared[name]

    def publisher(self, name: str, rank: int) -> Mailbox:
        return _InPlace(self._block(name), rank) if name in self._handles.shared else self.mailbox(name)

    def shared(self, name: str) -> SharedBlock | None:
        return self._block(name) if name in self._handles.shared else None

    def tally(self, name: str) -> Tally:
        handle = self._handles.tallies[name]
        return ShmTally.attach(handle) if isinstance(handle, TallyHandle) else handle.join()


class _InPlace(Mailbox):
    """A hogwild replica's: what it would publish is there already, so it only counts."""

    def __init__(self, shared: SharedBlock, rank: int) -> None:
        self._shared, self._rank = shared, rank

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        self._shared.count(self._rank)

    def latest(self) -> int:
        return self._shared.latest()

    def read(self, version: int, into: np.ndarray) -> bool:
        return self._shared.read(version, into)
