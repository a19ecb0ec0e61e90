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

from shoal.base.arrays import Layout
from shoal.launchers.ray.agent import BoxSpec, NodeSpec, RingSpec
from shoal.launchers.ray.cluster import connected
from shoal.launchers.ray.launcher import RayAgent
from shoal.streams.primitives import Mailbox, Ring, Slot, Tally
from shoal.streams.transports.ray.gloo import GlooTally, MeetingPoint, _Store
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


class AllRanks(Tally):
    """Every rank's end, in one process."""

    def __init__(self, ranks: int, nbytes: int) -> None:
        point = ray.remote(MeetingPoint).options(num_cpus=0, max_concurrency=16).remote()
        self.ranks, self.nbytes = ranks, nbytes
        with ThreadPoolExecutor(ranks) as pool:
            join = lambda rank: GlooTally(_Store(point), rank, ranks, nbytes, "127.0.0.1")  # noqa: E731
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
    assert sum(ray.get(agents[0].traffic.remote()).values()) > 200 * transport.LAYOUT.nbytes


def check_mailboxes(agents: tuple[Any, Any]) -> None:
    transport.check_mailbox(lambda nbytes, versions: FarMailbox(agents, nbytes, versions))


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
        check_tallies()
        print("tallies", flush=True)


if __name__ == "__main__":
    main()
