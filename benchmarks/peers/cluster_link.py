"""Between two hosts: Shoal's relay and plain Ray in turns, the same bytes. Runs inside a host of the cluster; prints one JSON line.

A writer process on one host, a reader process on the other. Ours: they share memory with the agents of their hosts, and those
relay. Plain Ray: the writer puts, the reader gets it as an argument, which is the fastest that Ray has. The hosts are of one
machine, so they have one clock.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.base.arrays import Layout
from shoal.streams.shared_streams import AttachedStreams
from shoal.streams.transports.ray.agent import RayAgent
from shoal.streams.transports.ray.specs import BoxSpec, NodeSpec, RingSpec

SETTINGS = json.loads(sys.argv[1])
MB = 1_000_000
SLOTS = 4
"""Fragments in flight per ring, on both sides."""
WHOLE, MOST = 48 * MB, 320
"""Bytes of one measurement, and fragments at most."""
PATIENCE = 60.0
PAUSE = 0.05
"""Seconds between two versions: what follows at once measures the wait for the last one."""


def noise(nbytes: int) -> np.ndarray:
    """Float32 [rows, 64] that nothing compresses."""
    return np.random.default_rng(0).standard_normal((nbytes // 256, 64), np.float32)


def frames(nbytes: int) -> np.ndarray:
    """Uint8 [rows, 1, 4, 84, 84]: four frames each, three of them the last row's. They are noise: only repetition is saved."""
    rows = nbytes // (4 * 84 * 84)
    single = np.random.default_rng(0).integers(0, 256, (rows + 3, 84, 84), np.uint8)
    return np.stack([single[row : row + 4] for row in range(rows)])[:, None]


KINDS = {"noise": noise, "frames": frames}


_EXAMPLES: dict[tuple[str, int], np.ndarray] = {}


def example(kind: str, nbytes: int) -> np.ndarray:
    """Made once in each process."""
    if (kind, nbytes) not in _EXAMPLES:
        _EXAMPLES[kind, nbytes] = KINDS[kind](nbytes)
    return _EXAMPLES[kind, nbytes]


class Fragments(NamedTuple):
    """What is carried: fragments of one kind and size, through so many rings in turns, as of so many actors."""

    kind: str
    nbytes: int
    rings: int

    @property
    def name(self) -> str:
        return f"{self.kind} {self.nbytes / MB:g}" + (f" x {self.rings}" if self.rings > 1 else "")

    @property
    def names(self) -> list[str]:
        return [f"{self.name}/{ring}" for ring in range(self.rings)]

    @property
    def count(self) -> int:
        return min(WHOLE // self.nbytes, MOST)


class Load(NamedTuple):
    """Seconds of CPU so far on one host."""

    agent: float
    everything: float


class End:
    """A process on one host, attached to what its agent has."""

    def attach(self, handles: Any, agent: int) -> None:
        self._streams, self._agent = AttachedStreams(handles, 0), agent

    def load(self) -> Load:
        spent = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(") ")[2].split()
            except OSError:  # it has just ended
                continue
            spent[int(stat.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Load(spent[self._agent], sum(spent.values()))

    # ------------------------------------------------------------ fragments

    def post(self, what: Fragments) -> float:
        source, rings = example(what.kind, what.nbytes), [self._streams.ring(name) for name in what.names]
        began = time.monotonic()
        for number in range(what.count):
            ring = rings[number % what.rings]
            slot = ring.begin(PATIENCE)
            assert slot is not None, "no credit came back"
            slot.arrays["observation"][...] = source
            ring.post(slot)
        return began

    def take(self, what: Fragments) -> float:
        rings = [self._streams.ring(name) for name in what.names]
        for number in range(what.count):
            ring = rings[number % what.rings]
            slot = ring.take(PATIENCE)
            assert slot is not None, "nothing came"
            touch(slot.arrays["observation"])
            ring.free(slot)
        return time.monotonic()

    def put(self, what: Fragments, reader: Any) -> tuple[float, float]:
        source = example(what.kind, what.nbytes)
        began, flying, ends = time.monotonic(), [], []
        for _ in range(what.count):
            if len(flying) == SLOTS * what.rings:
                ends.append(ray.get(flying.pop(0)))
            flying.append(reader.get.remote(ray.put(source)))
        return began, max(ends + ray.get(flying))

    def get(self, array: np.ndarray) -> float:
        touch(array)
        return time.monotonic()

    # ------------------------------------------------------------ parameters

    def publish(self, nbytes: int, version: int) -> float:
        block = np.full(nbytes, version, np.uint8)
        began = time.monotonic()
        self._streams.mailbox(f"version/{nbytes}").publish(version, block)
        return began

    def read(self, nbytes: int, version: int) -> float:
        box, block = self._streams.mailbox(f"version/{nbytes}"), np.empty(nbytes, np.uint8)
        assert self._streams.waiter.wait_until(lambda: box.latest() >= version, PATIENCE)
        assert box.read(version, block)
        return time.monotonic()

    def put_version(self, nbytes: int, version: int, reader: Any) -> tuple[float, float]:
        block = np.full(nbytes, version, np.uint8)
        began = time.monotonic()
        return began, ray.get(reader.get_version.remote(ray.put(block)))

    def get_version(self, block: np.ndarray) -> float:
        block.copy()
        return time.monotonic()


def touch(array: np.ndarray) -> None:
    """Look at every page: an object that nobody looked at may not be there."""
    array.reshape(-1).view(np.uint8)[::4096].sum()


class Link:
    """Two hosts, joined as a run would join them."""

    def __init__(self) -> None:
        nodes = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in ray.nodes())[:2]
        places = [NodeAffinitySchedulingStrategy(node, soft=False) for _, node in nodes]
        agents = [
            ray.remote(RayAgent).options(num_cpus=0, scheduling_strategy=place).remote(key, 2)
            for key, place in zip("ab", places, strict=True)
        ]
        ends = [ray.remote(End).options(num_cpus=0, scheduling_strategy=place).remote() for place in places]
        self.agents, self.writer, self.reader = agents, ends[0], ends[1]
        ray.get([agents[0].connect.remote({"b": agents[1]}), agents[1].connect.remote({"a": agents[0]})])
        ray.get(agents[1].configure.remote(_spec(writes=False)))
        ray.get(agents[0].configure.remote(_spec(writes=True)))
        for agent, end, host in zip(agents, ends, ("writer", "reader"), strict=True):
            handles, facts = ray.get([agent.handles.remote(host), agent.facts.remote()])
            ray.get(end.attach.remote(handles, facts.pid))

    def load(self) -> np.ndarray:
        """Seconds of CPU on both hosts: agents, everything."""
        return np.sum(ray.get([self.writer.load.remote(), self.reader.load.remote()]), axis=0)

    def fragments(self, what: Fragments, ours: bool) -> dict[str, float]:
        """MB/s, and seconds of CPU per MB. A MB is one of those that the writer wrote, however few travelled."""
        carried = what.count * example(what.kind, what.nbytes).nbytes / MB
        before, sent = self.load(), self.sent()
        if ours:
            taken = self.reader.take.remote(what)
            began, ended = ray.get([self.writer.post.remote(what), taken])
        else:
            began, ended = ray.get(self.writer.put.remote(what, self.reader))
        agents, everything = (self.load() - before) / carried
        travelled = (self.sent() - sent) / MB / carried
        rate = carried / (ended - began)
        return {"rate": rate, "agents": agents, "everything": everything, "travelled": travelled}

    def sent(self) -> int:
        return int(ray.get(self.agents[0].traffic.remote()))

    def parameters(self, nbytes: int, version: int, ours: bool) -> float:
        """Milliseconds from before one version is published until it was read on the other host."""
        time.sleep(PAUSE)
        if ours:
            read = self.reader.read.remote(nbytes, version)
            began, ended = ray.get([self.writer.publish.remote(nbytes, version), read])
        else:
            began, ended = ray.get(self.writer.put_version.remote(nbytes, version, self.reader))
        return (ended - began) * 1e3


def _spec(*, writes: bool) -> NodeSpec:
    spec, user = NodeSpec(), "writer" if writes else "reader"
    ends = ("writer", "", "b") if writes else ("", "reader", "a")
    for what in _fragments():
        layout = Layout.of({"observation": example(what.kind, what.nbytes)})
        spec.rings |= {name: RingSpec(layout, SLOTS, *ends, None) for name in what.names}
    for nbytes in _parameters():
        spec.boxes[f"version/{nbytes}"] = BoxSpec(nbytes, 2, 0, False, (user,), ("b",) if writes else ())
    return spec


def _fragments() -> list[Fragments]:
    return [Fragments(kind, int(size * MB), rings) for kind, size, rings in SETTINGS["fragments"]]


def _parameters() -> list[int]:
    return [int(size * MB) for size in SETTINGS["parameters"]]


def measure(link: Link, repeats: int) -> dict[str, Any]:
    """Everything in turns; the first round warms up."""
    found: dict[str, Any] = {"fragments": {}, "parameters": {}}
    version = 0
    for repeat in range(-1, repeats):
        for what in _fragments():
            sides = {side: link.fragments(what, side == "shoal") for side in ("shoal", "ray")}
            if repeat >= 0:
                found["fragments"].setdefault(what.name, []).append(sides)
        for nbytes in _parameters() * SETTINGS["versions"]:
            version += 1
            times = {side: link.parameters(nbytes, version, side == "shoal") for side in ("shoal", "ray")}
            if repeat >= 0:
                found["parameters"].setdefault(f"{nbytes / MB:g}", []).append(times)
    return found


if __name__ == "__main__":
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    print(json.dumps(measure(Link(), SETTINGS["repeats"])))
