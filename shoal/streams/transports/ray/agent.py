"""One agent per machine owns what its processes share: rings, mailboxes, bells, heartbeats. It relays what other machines need.

A thread moves slots and versions (`_relay`), another gathers what processes report (`reports.py`). Messages from other machines are
only put into the queue of the first, so calls return at once and keep their order.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from shoal.api.program import CONTROLLER
from shoal.monitoring.logs import LOG
from shoal.streams.primitives import Mailbox, Ring
from shoal.streams.sample import Account, account
from shoal.streams.shared_streams import Counters, StreamHandles
from shoal.streams.transports.ray.courier import Courier
from shoal.streams.transports.ray.messages import Credit, Deliver, Message, News, Peer, Reported, Version
from shoal.streams.transports.ray.relay import (
    BoxSender,
    RingReceiver,
    RingSender,
    RingState,
    for_a_reader,
    for_a_writer,
    go_on_from,
    receive_version,
)
from shoal.streams.transports.ray.reports import Reports
from shoal.streams.transports.ray.specs import AgentFacts, BoxSpec, NodeSpec, RingSpec
from shoal.streams.transports.shm.doorbell import Doorbell
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import ShmRing
from shoal.streams.transports.shm.tally import ShmTally

LOOK = 0.02
"""Seconds between two looks at all relays, for what rings no bell: acknowledgements, and rings that changed hands."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class MachineAgent(Peer):
    """`say` gets what the processes here report, in batches, from a thread of the agent's."""

    def __init__(self, node: str, processes: int, say: Callable[[list[News]], None]) -> None:
        self.node = node
        self._courier = Courier(node)
        self._bell = Doorbell.create()
        self._bells: dict[str, Doorbell] = {}
        self._rings: dict[str, ShmRing] = {}
        self._boxes: dict[str, ShmMailbox] = {}
        self._tallies: dict[str, ShmTally] = {}
        self._senders: dict[str, RingSender] = {}
        self._receivers: dict[str, RingReceiver] = {}
        self._publishers: dict[str, BoxSender] = {}
        self._spec = NodeSpec()
        self._adopted: dict[str, tuple[int, int]] = {}
        """Ring that changed hands -> posted and freed when its new ends were last woken."""
        self._woken: dict[str, set[str]] = {}
        """Mailbox -> the processes whose bells it rings itself."""
        self._late: dict[str, int] = {}
        """Mailbox that somebody joined later -> the newest version of which they were told."""
        self._bytes_before = 0
        """Bytes that left this machine for rings that are no longer here."""
        self._heartbeats = HeartbeatBoard.create(processes)
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._ended = False
        self._reports = Reports(self._heartbeats, say)
        self._pump = threading.Thread(target=self._relay, name="relay", daemon=True)
        self._pump.start()

    # ------------------------------------------------------------ set-up

    def facts(self) -> AgentFacts:
        """For processes."""
        return AgentFacts(os.getpid(), self._reports.address, self._reports.key, self._heartbeats.handle)

    def connect(self, peers: dict[str, Any]) -> None:
        """The agents of the other machines."""
        with self._lock:
            self._courier.connect(peers)

    def configure(self, spec: NodeSpec) -> None:
        """Have what the spec names: make what is new, turn what changed its other end."""
        with self._lock:
            before, self._spec = self._spec, spec
            for name in before.rings.keys() - spec.rings.keys():
                self._drop(name)
            for name in before.boxes.keys() - spec.boxes.keys():
                self._publishers.pop(name, None)
                self._late.pop(name, None)
            for name, ring in spec.rings.items():
                self._have_ring(name, ring, before.rings.get(name))
            for name, box in spec.boxes.items():
                self._have_box(name, box)
            for name, tally in spec.tallies.items():
                if name not in self._tallies:
                    self._tallies[name] = ShmTally(*tally)
        self._bell.ring()

    def _have_ring(self, name: str, spec: RingSpec, before: RingSpec | None) -> None:
        if name not in self._rings:
            reader = self._bell_of(spec.reader) if spec.reader else self._bell
            writer = self._bell_of(spec.writer) if spec.writer else self._bell
            self._rings[name] = ShmRing(spec.layout, spec.slots, reader_bell=reader, writer_bell=writer)
            if spec.state is not None:
                go_on_from(self._rings[name], spec.state)
        elif before is not None and (before.writer, before.reader) != (spec.writer, spec.reader):
            self._adopted[name] = (-1, -1)  # its bells are those of others
        self._turn(name, spec, before)

    def _turn(self, name: str, spec: RingSpec, before: RingSpec | None) -> None:
        """Who relays it, and to where."""
        ring = self._rings[name]
        if spec.reader:
            if self._senders.pop(name, None) is not None:  # its reader has come here
                ring.rewind()
        elif name not in self._senders:
            self._senders[name] = RingSender(name, ring, spec.peer, self._courier.send)
            if before is not None:  # its reader was here, and is not any more
                self._senders[name].turn_to(spec.peer)
        elif before is not None and (before.peer != spec.peer or spec.state is not None):
            self._senders[name].turn_to(spec.peer)
        if spec.writer:
            self._receivers.pop(name, None)
        elif name not in self._receivers:
            self._receivers[name] = RingReceiver(name, ring, spec.peer, self._courier.send)
        elif before is not None and before.peer != spec.peer:
            self._receivers[name].turn_to(spec.peer)

    def _have_box(self, name: str, spec: BoxSpec) -> None:
        if name not in self._boxes:
            bells = [*(self._bell_of(user) for user in spec.users), self._bell]
            self._boxes[name] = ShmMailbox(spec.nbytes, spec.versions, bells=bells)
            self._woken[name] = set(spec.users)
        elif not self._woken[name].issuperset(spec.users):
            self._late[name] = -1
        if not spec.subscribers:
            self._publishers.pop(name, None)
            return
        if name not in self._publishers:
            self._publishers[name] = BoxSender(
                name, self._boxes[name], spec.nbytes, spec.halved, spec.every,
                self._courier.send, self._courier.put, self._courier.busy,
            )  # fmt: skip
        sent = self._publishers[name].sent
        self._publishers[name].sent = {node: sent.get(node, -1) for node in spec.subscribers}

    def _bell_of(self, process: str) -> Doorbell:
        if process not in self._bells:
            self._bells[process] = Doorbell.create()
        return self._bells[process]

    def handles(self, process: str) -> StreamHandles:
        """What one process attaches to."""
        with self._lock:
            return StreamHandles(
                self._bell_of(process).handle,
                {
                    name: self._rings[name].handle
                    for name, r in self._spec.rings.items()
                    if process in (r.writer, r.reader)
                },
                {name: self._boxes[name].handle for name in self._spec.boxes},
                {name: tally.handle for name, tally in self._tallies.items()},
                {},
            )

    # ------------------------------------------------------------ what other machines and the controller call

    def do(
        self, method: Callable[Concatenate[MachineAgent, _P], _R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _R:
        """One of the methods here, for AgentLine: so whoever calls from afar gives the method itself, not its name."""
        return method(self, *args, **kwargs)

    def receive(self, sender: str, messages: list[Message]) -> None:
        for message in messages:
            self._later(partial(self._take, sender, message))

    def receive_version(self, sender: str, box: str, number: int, packed: np.ndarray, keep: list[int]) -> None:
        self.receive(sender, [Version(box, number, packed, keep)])

    def _take(self, sender: str, message: Message) -> None:
        match message:
            case Deliver():
                if (receiver := _at(self._receivers, message.ring, sender)) is not None:
                    receiver.deliver(message.number, message.packed)
            case Credit():
                if (ring := _at(self._senders, message.ring, sender)) is not None:
                    ring.credit(message.freed, message.ledger)
            case Version():
                if (
                    box := self._spec.boxes.get(message.box)
                ) is not None:  # its last reader here may have gone meanwhile
                    receive_version(
                        self._boxes[message.box], message.number, message.packed, box.halved, message.keep
                    )  # fmt: skip
            case Reported():
                raise TypeError("reports are for the controller")

    def send(self, node: str, message: Message) -> None:
        """Tell another machine, from any thread."""
        self._later(partial(self._courier.send, node, message))

    def _later(self, do: Callable[[], None]) -> None:
        self._queue.put(do)
        self._bell.ring()

    def mailbox(self, name: str) -> Mailbox:
        """One that is here."""
        return self._boxes[name]

    def ring(self, name: str) -> Ring:
        """One that is here."""
        return self._rings[name]

    def counters(self, name: str) -> Counters:
        """Of a ring that is here."""
        ring = self._rings[name]
        return Counters(ring.posted, ring.taken, ring.freed)

    def accounts(self) -> dict[str, tuple[int, Account]]:
        """Slots posted and the ledgers of all rings that are read here and count rows."""
        with self._lock:
            names = [name for name, spec in self._spec.rings.items() if spec.reader and spec.counted]
            return {name: (self._rings[name].posted, account(self._rings[name])) for name in names}

    def ring_state(self, name: str, *, writer: bool) -> RingState:
        """What a new end of a ring goes on from; `writer`: which of the two is new."""
        return for_a_writer(self._rings[name]) if writer else for_a_reader(self._rings[name])

    def newest(self, name: str) -> int:
        """The newest version of a mailbox that came here."""
        return self._boxes[name].latest() if name in self._boxes else -1

    def forget(self, names: list[str]) -> None:
        """These rings begin anew: both their ends died."""
        with self._lock:
            for name in names:
                self._drop(name)
                self._spec.rings.pop(name, None)

    def _drop(self, name: str) -> None:
        """Its end is not here any more; were it to come back, it would go on from where the other end is then."""
        self._receivers.pop(name, None)
        if (sender := self._senders.pop(name, None)) is not None:
            self._bytes_before += sender.bytes
        self._adopted.pop(name, None)
        if (ring := self._rings.pop(name, None)) is not None:
            ring.close()

    def kill(self, pid: int) -> None:
        """End a process of this machine that does not listen any more."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def renew(self) -> None:
        """New replicas may meet."""
        for tally in self._tallies.values():
            tally.renew()

    def abandon(self) -> None:
        """Nobody waits for replicas any more."""
        for tally in self._tallies.values():
            tally.abandon()

    def traffic(self) -> int:
        """Bytes of slots that left this machine."""
        return self._bytes_before + sum(sender.bytes for sender in self._senders.values())

    def versions_sent(self) -> dict[str, int]:
        """Mailbox -> versions that left this machine, each counted for every machine that they went to."""
        return {name: sender.count for name, sender in self._publishers.items()}

    # ------------------------------------------------------------ the pump

    def _relay(self) -> None:
        relaying = False
        while not self._ended:
            relaying = bool(self._senders or self._receivers or self._publishers or self._adopted)
            self._bell.wait_until(self._step, LOOK if relaying else 0.2)

    def _step(self) -> bool:
        """One look at everything; True ends the wait, which begins anew at once."""
        worked = self._ended
        with self._lock:
            try:
                while not self._queue.empty():
                    self._queue.get()()
                    worked = True
                for receiver in self._receivers.values():
                    worked |= receiver.step()
                for sender in self._senders.values():
                    worked |= sender.step()
                for publisher in self._publishers.values():
                    worked |= publisher.step()
                self._courier.step()
                self._wake_adopters()
            except Exception:  # a relay that stopped would look like a slow run
                LOG.exception("the relay of %s failed", self.node)
                os._exit(1)
        return worked

    def _wake_adopters(self) -> None:
        """A ring that changed hands rings the bells of those who had it before; a mailbox those who were there at first."""
        for name, seen in self._adopted.items():
            now = (self._rings[name].posted, self._rings[name].freed)
            if now != seen:
                self._adopted[name] = now
                for process in filter(None, (self._spec.rings[name].writer, self._spec.rings[name].reader)):
                    self._bell_of(process).ring()
        for name, told in self._late.items():
            if self._boxes[name].latest() != told:
                self._late[name] = self._boxes[name].latest()
                for user in set(self._spec.boxes[name].users) - self._woken[name]:
                    self._bell_of(user).ring()

    def close(self) -> None:
        """Give everything back."""
        self._ended = True
        self._bell.ring()
        self._pump.join(5)
        self._reports.close()
        with self._lock:
            for ring in self._rings.values():
                ring.close()
            for box in self._boxes.values():
                box.close()
            for tally in self._tallies.values():
                tally.close()
            for bell in self._bells.values():
                bell.close()
            self._heartbeats.close()


_Relay = TypeVar("_Relay", RingSender, RingReceiver)


def _at(relays: Mapping[str, _Relay], ring: str, sender: str) -> _Relay | None:
    """Only for the other end as it is now: a machine that was cut off and replaced may still send."""
    relay = relays.get(ring)
    return relay if relay is not None and relay.peer == sender else None


class RayAgent(MachineAgent):
    """The agent of a machine other than the controller's, as a Ray actor. What processes say goes to the controller, numbered."""

    def __init__(self, key: str, processes: int) -> None:
        self._sent = 0
        super().__init__(key, processes, self._tell)

    def _tell(self, batch: list[News]) -> None:
        self._sent += 1
        self.send(CONTROLLER, Reported(self._sent, batch))
