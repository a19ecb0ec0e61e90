"""The streams of a Program in shared memory: made and owned by the launcher, attached by each host as far as it needs them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

import numpy as np
import torch

from shoal.algorithms.agreement import settle
from shoal.api.algorithm import Algorithm
from shoal.program.hosts import Host
from shoal.program.wiring import Streams, Wiring
from shoal.streams.primitives import Mailbox, Ring, Tally
from shoal.streams.sample import Account, account
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
    """What a host needs to attach: numbers and text."""

    bell: SegmentHandle
    rings: dict[str, RingHandle]
    boxes: dict[str, MailboxHandle]
    tallies: dict[str, TallyHandle | Meeting]
    shared: dict[str, SharedBlockHandle]


class SharedStreams:
    """The launcher's: it owns the memory, and a doorbell for every host."""

    def __init__(self, wiring: Wiring, hosts: list[Host]) -> None:
        self._wiring = wiring
        self._bells = {host.name: Doorbell.create() for host in hosts}
        bells = self._bells
        self._rings = {
            name: ShmRing(plan.layout, plan.slots, reader_bell=bells[plan.reader], writer_bell=bells[plan.writer])
            for name, plan in wiring.rings.items()
        }
        self._boxes = {
            name: ShmMailbox(plan.nbytes, plan.versions, bells=[bells[user] for user in plan.users])
            for name, plan in wiring.boxes.items()
        }
        self.tallies = {name: ShmTally(plan.ranks, plan.nbytes) for name, plan in wiring.tallies.items()}
        self.shared = {
            name: SharedBlock(plan.nbytes, plan.replicas, plan.beside) for name, plan in wiring.shared.items()
        }

    def ring(self, name: str) -> Ring:
        return self._rings[name]

    def mailbox(self, name: str) -> Mailbox:
        return self.shared[name] if name in self.shared else self._boxes[name]

    def accounts(self) -> Account:
        """What became of all rows."""
        samples = [account(ring) for name, ring in self._rings.items() if name.startswith("sample/")]
        return sum(samples[1:], samples[0])

    def handles(self, host: Host) -> StreamHandles:
        """What one host uses."""
        rings = {
            name: self._rings[name].handle
            for name, plan in self._wiring.rings.items()
            if host.name in (plan.writer, plan.reader)
        }
        boxes = {name: self._boxes[name].handle for name, plan in self._wiring.boxes.items() if host.name in plan.users}
        tallies: dict[str, TallyHandle | Meeting] = {name: tally.handle for name, tally in self.tallies.items()}
        shared = {name: block.handle for name, block in self.shared.items()}
        return StreamHandles(self._bells[host.name].handle, rings, boxes, tallies, shared)

    def close(self) -> None:
        """Give the memory back."""
        for ring in self._rings.values():
            ring.close()
        for box in self._boxes.values():
            box.close()
        for tally in self.tallies.values():
            tally.close()
        for shared in self.shared.values():
            shared.close()
        for bell in self._bells.values():
            bell.close()


class AttachedStreams(Streams):
    """A host's: opened when first asked for."""

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

    def settle(self, name: str, algorithm: Algorithm) -> None:
        if name in self._handles.shared:
            settle_in(self._block(name), algorithm, fill=False)

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


def settle_in(shared: SharedBlock, algorithm: Algorithm, *, fill: bool) -> None:
    """Let an algorithm live in a shared block; whoever comes first fills it."""
    settle(algorithm, torch.from_numpy(shared.block), torch.from_numpy(shared.beside), fill=fill)
