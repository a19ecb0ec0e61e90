"""The transport between machines through the shipped conformance suite: two agents, real Ray between them.

A program of its own, since a process that was a driver of Ray keeps threads and handles of it. Prints a line per check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import numpy as np

from shoal.api.program import CONTROLLER, MailboxStream, RingStream, Stream
from shoal.base.arrays import Layout
from shoal.launchers.ray.cluster import connected
from shoal.streams.primitives import Mailbox, Ring, Slot, Tally
from shoal.streams.shared_streams import AttachedStreams, StreamHandles
from shoal.streams.transports.ray.agent import MachineAgent, RayAgent
from shoal.streams.transports.ray.gloo import GlooTally, MeetingPoint
from shoal.streams.transports.ray.messages import Message, Peer
from shoal.streams.transports.ray.specs import BoxSpec, NodeSpec, RingSpec
from shoal.streams.transports.ray.streams import AgentLine, RayStreams
from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import ShmRing
from shoal.testing import transport

import ray  # isort: skip - after ours, which says how

NUMBERS = count()


def until(same: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not same():
        assert time.monotonic() < deadline, "the relay stands still"
        time.sleep(0.0005)


class FarRing(Ring):
    """Written at one agent, read at the other; waits for the relay before each look."""

    def __init__(self, agents: tuple[Any, Any], specs: tuple[NodeSpec, NodeSpec], layout: Layout, slots: int) -> None:
        name = f"ring-{len(specs[0].rings)}"
        specs[0].rings[name] = RingSpec(layout, slots, "writer", "", "there", None)
        specs[1].rings[name] = RingSpec(layout, slots, "", "reader", "here", None)
        ray.get([agent.configure.remote(spec) for agent, spec in zip(agents, specs, strict=True)])
        ends = ray.get([agent.handles.remote(host) for agent, host in zip(agents, ("writer", "reader"), strict=True)])
        self.slots = slots
        self._near, self._far = (ShmRing.attach(handles.rings[name]) for handles in ends)

    def _settled(self) -> None:
        until(lambda: self._near.posted == self._far.posted and self._near.freed == self._far.freed)

    @property
    def posted(self) -> int:
        return self._near.posted

    @property
    def taken(self) -> int:
        return self._far.taken

    @property
    def freed(self) -> int:
        return self._far.freed

    def look(self, number: int) -> Slot:
        return self._far.look(number)

    def begin(self, timeout: float) -> Slot | None:
        self._settled()
        return self._near.begin(timeout)

    def post(self, slot: Slot) -> None:
        self._near.post(slot)

    def take(self, timeout: float) -> Slot | None:
        self._settled()
        return self._far.take(timeout)

    def free(self, slot: Slot) -> None:
        self._far.free(slot)

    def rewind(self) -> None:
        self._far.rewind()


class FarMailbox(Mailbox):
    """Published at one agent, read at the other."""

    def __init__(self, agents: tuple[Any, Any], nbytes: int, versions: int) -> None:
        name = f"box-{next(NUMBERS)}"
        specs = [NodeSpec(boxes={name: BoxSpec(nbytes, versions, 0, True, (), to)}) for to in (("there",), ())]
        ray.get([agent.configure.remote(spec) for agent, spec in zip(agents, specs, strict=True)])
        ends = ray.get([agent.handles.remote("anybody") for agent in agents])
        self._near, self._far = (ShmMailbox.attach(handles.boxes[name]) for handles in ends)

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        self._near.publish(version, block, keep)
        until(lambda: self._far.latest() == version)

    def latest(self) -> int:
        return self._far.latest()

    def read(self, version: int, into: np.ndarray) -> bool:
        return self._far.read(version, into)


class ByRay:
    """The way to a MeetingPoint."""

    def __init__(self, point: Any) -> None:
        self._point = point

    def set(self, meeting: int, key: str, value: bytes) -> None:
        ray.get(self._point.set.remote(meeting, key, value))

    def get(self, meeting: int, key: str, timeout: float) -> bytes | None:
        found: bytes | None = ray.get(self._point.get.remote(meeting, key, timeout))
        return found


class AllRanks(Tally):
    """Every rank's end, in one process."""

    def __init__(self, ranks: int, nbytes: int) -> None:
        point = ray.remote(MeetingPoint).options(num_cpus=0, max_concurrency=16).remote()
        self.ranks, self.nbytes = ranks, nbytes
        with ThreadPoolExecutor(ranks) as pool:
            join = lambda rank: GlooTally(ByRay(point), rank, ranks, nbytes, "127.0.0.1")  # noqa: E731
            self._ends = list(pool.map(join, range(ranks)))

    def sum(self, rank: int, vector: np.ndarray, timeout: float) -> np.ndarray:
        return self._ends[rank].sum(rank, vector, timeout)

    def abandon(self) -> None:
        raise NotImplementedError

    def renew(self) -> None:
        raise NotImplementedError


def check_rings(agents: tuple[Any, Any]) -> None:
    specs = NodeSpec(), NodeSpec()
    transport.check_ring(lambda layout, slots: FarRing(agents, specs, layout, slots))
    assert ray.get(agents[0].traffic.remote()) > 200 * transport.LAYOUT.nbytes


def check_mailboxes(agents: tuple[Any, Any]) -> None:
    transport.check_mailbox(lambda nbytes, versions: FarMailbox(agents, nbytes, versions))


class Home(Peer):
    """A controller: its own agent lives in its process."""

    def __init__(self, streams: dict[str, Stream]) -> None:
        self._agent = MachineAgent("home", 1, lambda batch: None)
        line = AgentLine("home", self._agent, ray.get_runtime_context().current_actor)
        self._streams = RayStreams(streams, line, self._agent)

    def place(self, process: str, key: str, agents: dict[str, Any]) -> StreamHandles:
        lines = {key: AgentLine(key, None, handle) for key, handle in agents.items()}
        self._streams.place({process: key}, lines)
        return self._streams.line(process).call(MachineAgent.handles, process)

    @ray.method(concurrency_group="work")
    def post(self, count: int) -> None:
        ring = self._streams.ring("orders")
        for number in range(count):
            slot = ring.begin(60.0)
            assert slot is not None, "no credit in 60 s"
            slot.arrays["id"][...] = number
            ring.post(slot)

    def counts(self) -> tuple[int, int]:
        ring = self._streams.ring("orders")
        return ring.posted, ring.freed

    def publish(self, version: int) -> None:
        self._streams.mailbox("word").publish(version, np.full(8, version, np.uint8))

    @ray.method(concurrency_group="agents")
    def receive(self, sender: str, messages: list[Message]) -> None:
        self._agent.receive(sender, messages)

    @ray.method(concurrency_group="agents")
    def receive_version(self, sender: str, box: str, number: int, packed: np.ndarray, keep: list[int]) -> None:
        self._agent.receive_version(sender, box, number, packed, keep)


class Reader:
    """A process that reads what the controller writes; one life of it."""

    def __init__(self, handles: StreamHandles, incarnation: int) -> None:
        self._streams = AttachedStreams(handles, incarnation)

    def take(self, count: int, hold: int) -> list[int]:
        """The next ones; the last of them are not freed."""
        ring, numbers = self._streams.ring("orders"), []
        ring.rewind()
        for _ in range(count):
            slot = ring.take(30.0)
            assert slot is not None, f"nothing came in 30 s after {numbers}"
            numbers.append(int(slot.arrays["id"]))
            if len(ring.held()) > hold:
                ring.free(ring.held()[0])
        return numbers

    def read(self, version: int) -> tuple[list[int], float]:
        """A version once it is there, and how long it took."""
        box, block, began = self._streams.mailbox("word"), np.zeros(8, np.uint8), time.monotonic()
        assert self._streams.waiter.wait_until(lambda: box.latest() >= version, 30.0)
        assert box.read(version, block)
        return block.tolist(), time.monotonic() - began


def check_what_the_controller_writes(agents: dict[str, Any]) -> None:
    """A ring and a mailbox, while their reader dies and goes on on the same machine, on another, on the first again and at home."""
    streams = {
        "orders": RingStream(transport.LAYOUT, 8, CONTROLLER, "reader"),
        "word": MailboxStream(8, 1, CONTROLLER, ("reader", "other")),
    }
    remote: Any = ray.remote  # its types know no concurrency groups
    home = remote(concurrency_groups={"agents": 1, "work": 1})(Home).options(num_cpus=0).remote(streams)
    ray.get([agent.connect.remote({"home": home}) for agent in agents.values()])
    done = home.post.remote(100)  # nobody has a place yet
    ray.get(home.publish.remote(0))
    other = ray.remote(Reader).options(num_cpus=0).remote(ray.get(home.place.remote("other", "there", agents)), 0)
    lives, first = [("here", 30, 3), ("here", 30, 3), ("there", 20, 3), ("here", 20, 2), ("home", 11, 0)], 0
    for version, (key, number, hold) in enumerate(lives):
        handles = ray.get(home.place.remote("reader", key, agents))
        reader = ray.remote(Reader).options(num_cpus=0).remote(handles, version)
        assert ray.get(reader.take.remote(number, hold)) == list(range(first, first + number)), (
            f"life {version} at {key}"
        )
        first += number - hold
        assert ray.get(reader.read.remote(version))[0] == [version] * 8, "what was published before it came"
        waiting = [one.read.remote(version + 1) for one in (reader, other)]
        time.sleep(0.3)
        ray.get(home.publish.remote(version + 1))
        for block, seconds in ray.get(waiting):
            assert block == [version + 1] * 8
            assert seconds < 10, "nobody rang"
        ray.kill(reader)
        until(lambda: ray.get(home.counts.remote())[1] == first)  # noqa: B023
    ray.get(done)
    assert ray.get(home.counts.remote()) == (100, 100)
    ray.kill(other)


def check_tallies() -> None:
    """What a tally of many machines has not: waits that can be broken off. Its replicas are killed instead."""
    for ranks in (1, 2, 3):
        transport._tally_sums_in_rank_order(AllRanks(ranks, 800), rounds=30)
    transport._tally_refuses_parts_that_differ(AllRanks(3, 64))
    transport._tally_refuses_what_it_cannot_hold(AllRanks(1, 64))


def main() -> None:
    with connected(None, cpus=2):
        here, there = (ray.remote(RayAgent).options(num_cpus=0).remote(key, 1) for key in ("here", "there"))
        ray.get([here.connect.remote({"there": there}), there.connect.remote({"here": here})])
        check_rings((here, there))
        print("rings", flush=True)
        check_mailboxes((here, there))
        print("mailboxes", flush=True)
        check_what_the_controller_writes({"here": here, "there": there})
        print("controller", flush=True)
        check_tallies()
        print("tallies", flush=True)


if __name__ == "__main__":
    main()
