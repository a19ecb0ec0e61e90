"""Rings and mailboxes over two machines, without machines: messages that come late, twice, or to somebody new."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

pytest.importorskip("lz4.block", reason="the extra `cluster` is not installed")

from shoal.base.arrays import Layout
from shoal.streams.sample import HEADER, account, record_outcome
from shoal.streams.transports.ray.messages import Credit, Deliver, Message, Version
from shoal.streams.transports.ray.relay import (
    BoxSender,
    RingReceiver,
    RingSender,
    for_a_reader,
    for_a_writer,
    go_on_from,
    receive_version,
)
from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import ShmRing

LAYOUT = Layout.of({"x": np.zeros(4, np.float32), "header": np.zeros((), HEADER)})


class Wire:
    """Keeps what is sent until somebody carries it over."""

    def __init__(self) -> None:
        self.sent: deque[tuple[str, Message]] = deque()

    def __call__(self, node: str, message: Message) -> None:
        self.sent.append((node, message))

    def carry(self, *ends: RingSender | RingReceiver, twice: bool = False) -> None:
        while self.sent:
            _, message = self.sent.popleft()
            for end in ends:
                for _ in range(1 + twice):
                    if isinstance(message, Deliver) and isinstance(end, RingReceiver):
                        end.deliver(message.number, message.packed)
                    elif isinstance(message, Credit) and isinstance(end, RingSender):
                        end.credit(message.freed, message.ledger)

    def versions(self) -> list[Version]:
        """All that was sent, which is nothing else."""
        messages = [message for _, message in self.sent]
        return [message for message in messages if isinstance(message, Version)]


def write(ring: ShmRing, number: int, rows: int = 10) -> bool:
    slot = ring.begin(0.0)
    if slot is None:
        return False
    slot.arrays["x"][:] = number
    header = slot.arrays["header"]
    header["rows"] = rows
    before = ring.look(ring.posted - 1).arrays["header"]["produced"][(ring.posted - 1) % 2] if ring.posted else 0
    header["produced"][ring.posted % 2] = before + rows
    ring.post(slot)
    return True


def read(ring: ShmRing) -> int | None:
    slot = ring.take(0.0)
    if slot is None:
        return None
    number = int(slot.arrays["x"][0])
    record_outcome(ring, slot, "trained", np.array([1, 0]))
    return number


def pair(slots: int = 2) -> tuple[ShmRing, ShmRing, RingSender, RingReceiver, Wire]:
    wire, here, there = Wire(), ShmRing(LAYOUT, slots), ShmRing(LAYOUT, slots)
    return here, there, RingSender("r", here, "b", wire), RingReceiver("r", there, "a", wire), wire


@pytest.mark.parametrize("twice", [False, True])
def test_slots_come_in_order_once_and_credits_go_back(twice: bool) -> None:
    here, there, sender, receiver, wire = pair()
    got = []
    for number in range(40):
        assert write(here, number)
        if number % 2:
            assert not write(here, -1), "two are in flight"
            sender.step()
            wire.carry(sender, receiver, twice=twice)
            got += [read(there), read(there)]
            assert not write(here, -1), "freed over there, and not known here"
            receiver.step()
            wire.carry(sender, receiver, twice=twice)
    assert got == list(range(40))
    assert account(there).produced == 400
    assert account(there).outcomes["trained"] == 400
    assert account(here).outcomes["trained"] == 400, "the books came back with the credits"
    assert account(here).evicted == 40


def test_an_empty_ring_costs_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    here, _, sender, _, wire = pair()
    monkeypatch.setattr(here.reader_bell, "wait_until", lambda *_: pytest.fail("nobody has posted"))
    assert not sender.step()
    write(here, 0)
    assert sender.step()
    assert len(wire.sent) == 1


def test_a_slot_that_is_sent_again_after_it_was_freed_is_passed_over() -> None:
    here, there, sender, receiver, wire = pair()
    write(here, 0)
    sender.step()
    first = wire.sent[0]
    wire.carry(receiver)
    assert read(there) == 0
    receiver.step()
    wire.carry(sender)
    write(here, 1), write(here, 2)  # in the place of 0, of which the first message may hold views
    wire.sent.append(first)
    sender.step()
    wire.carry(receiver)
    assert [read(there), read(there), read(there)] == [1, 2, None]


def test_a_slot_that_overtakes_waits() -> None:
    here, there, sender, receiver, wire = pair()
    write(here, 0), write(here, 1)
    sender.step()
    wire.sent.reverse()
    wire.carry(receiver)
    assert [read(there), read(there)] == [0, 1]


def test_a_new_writer_goes_on_after_what_arrived() -> None:
    here, there, sender, receiver, wire = pair()
    write(here, 0), write(here, 1)
    sender.step()
    wire.sent.pop()  # the machine dies with its second slot on the way
    wire.carry(receiver)
    new = ShmRing(LAYOUT, 2)
    go_on_from(new, for_a_writer(there))
    sender = RingSender("r", new, "b", wire)
    receiver.turn_to("c")
    assert new.posted == 1
    assert write(new, 1)
    assert not write(new, 2), "the slot of the dead one is still in flight"
    assert read(there) == 0
    sender.step(), receiver.step()
    wire.carry(sender, receiver)
    assert read(there) == 1
    assert account(there).produced == 20
    assert account(there).balanced
    assert write(new, 2)


def test_a_new_reader_gets_what_was_not_freed_once_more() -> None:
    here, there, sender, receiver, wire = pair()
    write(here, 0), write(here, 1)
    sender.step()
    wire.carry(receiver)
    assert read(there) == 0
    receiver.step()
    wire.carry(sender)  # 0 is known to be trained, 1 was taken or not: who knows
    new = ShmRing(LAYOUT, 2)
    go_on_from(new, for_a_reader(here))
    receiver = RingReceiver("r", new, "a", wire)
    sender.turn_to("c")
    wire.carry(receiver)
    assert read(new) == 1
    assert account(new).outcomes["trained"] == 20
    assert account(new).balanced


def test_versions_reach_every_machine_and_only_the_newest_if_that_will_do() -> None:
    for every, expected in ((True, [3, 4]), (False, [4])):
        wire, box, busy = Wire(), ShmMailbox(8, 2), {"b": False}
        sender = BoxSender("v", box, 8, 0, every, wire, lambda packed: packed, busy.__getitem__, {"b": -1})
        for version in range(5):
            box.publish(version, np.full(8, version, np.uint8))
        assert sender.step()
        assert [sent.number for sent in wire.versions()] == expected
        assert not sender.step(), "nothing is fetched that is there already"
        there = ShmMailbox(8, 2)
        for sent in wire.versions() * 2:
            receive_version(there, sent.number, sent.packed, keep=sent.keep)
        into = np.zeros(8, np.uint8)
        assert there.latest() == 4
        assert there.read(4, into)
        assert (into == 4).all()


def test_a_machine_that_is_slow_gets_fewer_versions() -> None:
    wire, box, busy = Wire(), ShmMailbox(8, 2), {"b": True}
    sender = BoxSender("v", box, 8, 0, False, wire, lambda packed: packed, busy.__getitem__, {"b": -1})
    box.publish(0, np.zeros(8, np.uint8))
    assert not sender.step()
    box.publish(1, np.zeros(8, np.uint8))
    busy["b"] = False
    assert sender.step()
    assert [sent.number for sent in wire.versions()] == [1]


def test_a_version_that_is_kept_stays_on_every_machine() -> None:
    wire, box, there = Wire(), ShmMailbox(8, 3), ShmMailbox(8, 3)
    sender = BoxSender("v", box, 8, 0, True, wire, lambda packed: packed, lambda host: False, {"b": -1})
    for version in range(6):
        box.publish(version, np.full(8, version, np.uint8), keep=[0, 2])
        sender.step()
    for sent in wire.versions():
        receive_version(there, sent.number, sent.packed, keep=sent.keep)
    wire.sent.clear()
    assert there.held() == box.held() == [0, 2, 5]
    late = ShmMailbox(8, 3)
    sender.sent["c"] = -1
    sender.step()
    assert {node for node, _ in wire.sent} == {"c"}
    for sent in wire.versions():
        receive_version(late, sent.number, sent.packed, keep=sent.keep)
    assert late.held() == [0, 2, 5], "whoever joins late gets all that is held"
