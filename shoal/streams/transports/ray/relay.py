"""Rings and mailboxes that reach from one machine to another.

Each end is shared memory of its own machine, and on either side stands a relay. A slot that was posted on the writer's machine is
sent once and stays held there until the reader's machine says that it was freed: so the credits of a ring between machines are
those of a ring on one, and bound the lag alike. Messages carry numbers that only grow, so one that comes twice is passed over, and
whoever lost touch sends again.
The messages are those of `messages.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from shoal.streams.primitives import Mailbox, Slot
from shoal.streams.transports.ray.messages import Credit, Deliver, Message, Version
from shoal.streams.transports.ray.wire import Packer, pack_version, unpack, unpack_version
from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import ShmRing


class Send(Protocol):
    """How a relay reaches another machine: in order, and again until it arrived."""

    def __call__(self, node: str, message: Message) -> None:
        """Tell the agent there."""


class RingState(NamedTuple):
    """Where a ring stands: enough to go on with another one in its place."""

    posted: int
    """Slots that were posted, and need not come again."""
    freed: int
    ledger: bytes
    """The header of the last posted one; empty: there is none."""


class RingSender:
    """The writer's side: takes what is posted here and sends it on; frees it when the other side has."""

    def __init__(self, name: str, ring: ShmRing, peer: str, send: Send, *, compress: bool = True) -> None:
        self.name, self.ring, self.peer, self._send = name, ring, peer, send
        self._packer = Packer(compress=compress)
        self.bytes = 0

    def step(self) -> bool:
        """Send what waits; whether there was any."""
        worked = False
        while (
            self.ring.waiting
        ):  # a machine of many actors asks many rings, and most of them in vain: `take` would cost more
            slot = self.ring.take(0.0)
            assert slot is not None, "nobody else takes"
            self._deliver(self.ring.taken - 1, slot)
            worked = True
        return worked

    def credit(self, freed: int, ledger: bytes) -> None:
        """The other side has freed all slots before `freed`."""
        while self.ring.freed < min(freed, self.ring.taken):
            slot = self.ring.look(self.ring.freed)
            if ledger and self.ring.freed == freed - 1:
                for name in ("outcomes", "removed"):  # the reader's half
                    _header(slot)[name] = _parsed(slot, ledger)[name]
            self.ring.free(slot)

    def turn_to(self, peer: str) -> None:
        """The reader lives elsewhere now: what it had not freed is sent once more, to there."""
        self.peer = peer
        for number in range(self.ring.freed, self.ring.taken):
            self._deliver(number, self.ring.look(number))

    def _deliver(self, number: int, slot: Slot) -> None:
        packed = self._packer.pack(slot.arrays)  # views are good until the slot is freed; then it has arrived
        self.bytes += sum(part.nbytes for part in packed)
        self._send(self.peer, Deliver(self.name, number, packed))


class RingReceiver:
    """The reader's side: writes what comes into the ring here; says what was freed."""

    def __init__(self, name: str, ring: ShmRing, peer: str, send: Send) -> None:
        self.name, self.ring, self.peer, self._send = name, ring, peer, send
        self._credited = ring.freed
        self._early: dict[int, list[np.ndarray]] = {}

    def deliver(self, number: int, packed: list[np.ndarray]) -> None:
        """A slot has come. What is there already is passed over, what overtook another waits for it."""
        if number >= self.ring.posted:
            self._early[number] = packed
        while (packed_next := self._early.pop(self.ring.posted, None)) is not None:
            slot = self.ring.begin(0.0)
            assert slot is not None, "the writer's credits are ours"
            unpack(packed_next, slot.arrays)
            self.ring.post(slot)

    def step(self) -> bool:
        """Return credits; whether there were any."""
        freed = self.ring.freed
        if freed == self._credited:
            return False
        self._credited = freed
        self._send(self.peer, Credit(self.name, freed, _ledger(self.ring, freed)))
        return True

    def turn_to(self, peer: str) -> None:
        """The writer lives elsewhere now: what the last one sent too early is lost with it."""
        self.peer, self._credited = peer, -1
        self._early.clear()


@dataclass
class BoxSender:
    """The publisher's side: every version is packed once, and sent to all other machines that read it."""

    name: str
    box: ShmMailbox
    nbytes: int
    halved: int
    every: bool
    """All versions, in order; otherwise only the newest of those that came while the last was on its way."""
    send: Send
    put: Callable[[np.ndarray], Any]
    busy: Callable[[str], bool]
    """Whether something is still on its way to a machine."""
    sent: dict[str, int] = field(default_factory=dict)
    """Machine -> the newest version that it was sent."""
    count: int = 0
    """Versions that left, each counted for every machine."""

    def step(self) -> bool:
        """Send what is new; whether anything was."""
        newest, packed, worked = self.box.latest(), {}, False
        for machine, sent in self.sent.items():
            for version in self._due(machine, sent, newest):
                if version not in packed:
                    packed[version] = self._pack(version)
                if packed[version] is not None:
                    self.send(machine, Version(self.name, version, packed[version], self.box.held()))
                    self.count += 1
                self.sent[machine] = version
                worked = True
        return worked

    def _due(self, machine: str, sent: int, newest: int) -> list[int]:
        if newest <= sent:
            return []
        if self.every:
            return [version for version in self.box.held() if version > sent]
        return [] if self.busy(machine) else [newest]

    def _pack(self, version: int) -> Any:
        block = np.empty(self.nbytes, np.uint8)
        return self.put(pack_version(block, self.halved)) if self.box.read(version, block) else None


def receive_version(
    box: Mailbox, version: int, packed: np.ndarray, halved: int = 0, keep: Collection[int] = ()
) -> None:
    """A version has come; an old one is passed over. `keep`: those that the publisher's side holds."""
    if version > box.latest():
        box.publish(version, unpack_version(packed, halved), keep)


# ---------------------------------------------------------------- a ring in the place of another


def for_a_writer(ring: ShmRing) -> RingState:
    """What a new writer's end goes on from, as the reader's end knows it."""
    return RingState(ring.posted, ring.freed, _ledger(ring, ring.posted))


def for_a_reader(ring: ShmRing) -> RingState:
    """What a new reader's end goes on from, as the writer's end knows it: what was not freed comes once more."""
    return RingState(ring.freed, ring.freed, _ledger(ring, ring.freed))


def go_on_from(ring: ShmRing, state: RingState) -> None:
    """Let a new ring go on where another one stood."""
    ring.resume_at(state.posted, state.freed)
    if state.ledger:
        slot = ring.look(state.posted - 1)
        _header(slot)[...] = _parsed(slot, state.ledger)


def _ledger(ring: ShmRing, number: int) -> bytes:
    """The header of the slot before `number`, where slots have one."""
    if not number or "header" not in ring.look(0).arrays:
        return b""
    return _header(ring.look(number - 1)).tobytes()


def _header(slot: Slot) -> np.ndarray:
    header: np.ndarray = slot.arrays["header"]
    return header


def _parsed(slot: Slot, ledger: bytes) -> np.ndarray:
    return np.frombuffer(ledger, _header(slot).dtype)[0]
