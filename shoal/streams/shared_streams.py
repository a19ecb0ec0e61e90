"""The streams of a Program in shared memory: made and owned by the launcher, attached by each process as far as it needs them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from shoal.api.program import CONTROLLER, MailboxStream, Program, RingStream, SharedStream, TallyStream
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
    freed: int


class SharedStreams:
    """The launcher's: it owns the memory, and a doorbell for every process and one for itself."""

    def __init__(self, program: Program) -> None:
        self._streams = program.streams
        names = (*(process.name for process in program.processes), CONTROLLER)
        self._bells = bells = {name: Doorbell.create() for name in names}
        self._rings: dict[str, ShmRing] = {}
        self._boxes: dict[str, ShmMailbox] = {}
        self._shared: dict[str, SharedBlock] = {}
        self.tallies: dict[str, ShmTally] = {}
        for name, plan in self._streams.items():
            match plan:
                case RingStream():
                    reader, writer = bells[plan.reader], bells[plan.writer]
                    self._rings[name] = ShmRing(plan.layout, plan.slots, reader_bell=reader, writer_bell=writer)
                case MailboxStream():
                    users = [bells[user] for user in plan.users]
                    self._boxes[name] = ShmMailbox(plan.nbytes, plan.versions, bells=users)
                case TallyStream():
                    self.tallies[name] = ShmTally(len(plan.ranks), plan.nbytes)
                case SharedStream():
                    self._shared[name] = SharedBlock(plan.nbytes, len(plan.writers), plan.beside)

    def ring(self, name: str) -> Ring:
        """The ring of that name."""
        return self._rings[name]

    def counters(self, name: str) -> Counters:
        """How far a ring is."""
        ring = self._rings[name]
        return Counters(ring.posted, ring.taken, ring.freed)

    def mailbox(self, name: str) -> Mailbox:
        """The mailbox of that name."""
        return self._shared[name] if name in self._shared else self._boxes[name]

    def shared(self, name: str) -> SharedBlock | None:
        """The memory that replicas train in, if those of that name share one."""
        return self._shared.get(name)

    def accounts(self) -> Account:
        """What became of all rows."""
        counted = [ring for name, ring in self._rings.items() if self._plan(name).counted]
        return sum(map(account, counted), NOTHING)

    def _plan(self, ring: str) -> RingStream:
        plan = self._streams[ring]
        assert isinstance(plan, RingStream)
        return plan

    def handles(self, process: str) -> StreamHandles:
        """What one process uses."""
        rings = {
            name: ring.handle
            for name, ring in self._rings.items()
            if process in (self._plan(name).writer, self._plan(name).reader)
        }
        boxes = {name: box.handle for name, box in self._boxes.items() if process in _users(self._streams[name])}
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


def _users(stream: object) -> tuple[str, ...]:
    return stream.users if isinstance(stream, MailboxStream) else ()


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

    def shared(self, name: str) -> SharedBlock | None:
        return self._block(name) if name in self._handles.shared else None

    def tally(self, name: str) -> Tally:
        handle = self._handles.tallies[name]
        return ShmTally.attach(handle) if isinstance(handle, TallyHandle) else handle.join()
