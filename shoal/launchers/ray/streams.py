"""The streams of a run on many machines, as its controller has them: which machine has which end, and what that asks of each agent.

Every change of place ends in one call per agent, with all that its machine has a part in. Agents see for themselves what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import ray

from shoal.base.errors import ShoalError
from shoal.launchers.ray.agent import BoxSpec, HostAgent, NodeSpec, RingSpec, TallySpec
from shoal.program.wiring import BoxPlan, RingPlan, Wiring
from shoal.streams.primitives import Mailbox, Tally
from shoal.streams.sample import OUTCOMES, Account
from shoal.streams.transports.ray.gloo import GlooTally, MeetingPoint
from shoal.streams.transports.ray.relay import RingState

CONTROLLER = "controller"
"""How agents call the controller among their peers."""
PATIENCE = 60.0
"""Seconds an agent has to answer: a link may be cut for a while."""


class AgentLine:
    """How the controller calls an agent: its own directly, another through Ray."""

    def __init__(self, key: str, agent: HostAgent | None, handle: Any) -> None:
        self.key, self._agent, self.handle = key, agent, handle
        self.dead = False

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """And wait for the answer."""
        if self._agent is not None:
            return getattr(self._agent, method)(*args, **kwargs)
        try:
            return ray.get(getattr(self.handle, method).remote(*args, **kwargs), timeout=PATIENCE)
        except ray.exceptions.RayActorError as error:
            self.dead = True
            raise LostError(f"the machine {self.key} is lost") from error
        except ray.exceptions.GetTimeoutError as error:
            raise ShoalError(f"the machine {self.key} has not answered for {PATIENCE:g} s") from error


class LostError(ShoalError):
    """A machine is gone, or its agent."""


class _Counters(NamedTuple):
    posted: int
    taken: int


class _Leave(Mailbox):
    """A mailbox that the controller alone writes, wherever its reader lives."""

    def __init__(self, name: str, streams: RayStreams) -> None:
        self._name, self._streams = name, streams
        self._newest = -1
        self.block = b""

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        self._newest, self.block = version, block.tobytes()
        self._streams.publish(self._name, version, self.block)

    def latest(self) -> int:
        return self._newest

    def read(self, version: int, into: np.ndarray) -> bool:
        raise NotImplementedError("its reader lives elsewhere")

    def again(self) -> None:
        """Its reader has a new place."""
        if self._newest >= 0:
            self._streams.publish(self._name, self._newest, self.block)


@dataclass
class _Tally:
    """Where the replicas of a trainer meet: in the memory of a machine that has them all, otherwise at a point of their own."""

    streams: RayStreams

    def renew(self) -> None:
        self.streams.everywhere("renew")
        self.streams.meeting = None

    def abandon(self) -> None:
        self.streams.everywhere("abandon")


class _Meeting(NamedTuple):
    """How one replica joins the others on other machines."""

    point: Any
    rank: int
    ranks: int
    nbytes: int

    def join(self) -> Tally:
        return GlooTally.meet(self.point, self.rank, self.ranks, self.nbytes)


class RayStreams:
    """`home`: the controller's own agent. `halved`: policy's mailbox -> bytes of float32 that travel as float16."""

    def __init__(
        self, wiring: Wiring, home: AgentLine, agent: HostAgent, *, exact: bool, halved: dict[str, int]
    ) -> None:
        self._wiring, self._home, self._agent, self._exact, self._halved = wiring, home, agent, exact, halved
        self._lines: dict[str, AgentLine] = {home.key: home}
        self._places: dict[str, str] = {}
        self._copies: dict[str, set[str]] = {name: set() for name in wiring.rings}
        self._known: dict[str, Account] = {}
        self._posted: dict[str, int] = dict.fromkeys(wiring.rings, 0)
        self._lost = Account(0, dict.fromkeys(OUTCOMES, 0), 0)
        self._leaves = {name: _Leave(name, self) for name in wiring.boxes if name.startswith("leave/")}
        self.tallies = {name: _Tally(self) for name in wiring.tallies}
        self.meeting: Any = None

    # ------------------------------------------------------------ places

    def line(self, host: str) -> AgentLine:
        """The agent of the machine where a host lives."""
        return self._lines[self._places[host]]

    def place(self, places: dict[str, str], lines: dict[str, AgentLine]) -> None:
        """Hosts have found new places; `lines` are all agents that live."""
        self._lines = {self._home.key: self._home, **lines}
        self._places = {host: key for host, key in {**self._places, **places}.items() if key in self._lines}
        for name in self._copies:
            self._copies[name] &= self._lines.keys()
        states = dict(self._new_states())
        peers = {CONTROLLER: self._home.handle, **{key: line.handle for key, line in self._lines.items()}}
        news = set(places.values())
        for key in sorted(
            self._lines, key=lambda key: key not in news
        ):  # a reader's end is there before anything is sent to it
            others = {other: handle for other, handle in peers.items() if other != key}
            spec = self._spec(key, states)
            self._ask(key, lambda line: (line.call("connect", others), line.call("configure", spec)))  # noqa: B023
        for name in self._leaves:
            if self._wiring.boxes[name].users[0] in places:
                self._leaves[name].again()

    def _ends(self, ring: RingPlan) -> tuple[str, str]:
        return self._places.get(ring.writer, ""), self._places.get(ring.reader, "")

    def _new_states(self) -> Iterator[tuple[tuple[str, str], RingState]]:
        """(ring, machine) -> where its new copy goes on: after the other end, or, if both are gone, after what is known."""
        for name, ring in self._wiring.rings.items():
            writer, reader = self._ends(ring)
            ends, copies = {writer, reader} - {""}, self._copies[name]
            missing, living = ends - copies, ends & copies
            state = None
            if missing and living:
                (other,) = living
                state = self._ask(other, lambda line: line.call("ring_state", name, writer=other == reader))  # noqa: B023
            if missing and state is None and (copies or self._posted[name]):
                state = self._begin_anew(name)
            for key in missing:
                if state is not None:
                    yield (name, key), state
            self._copies[name] = self._copies[name] | missing

    def _begin_anew(self, name: str) -> RingState:
        """Both ends are gone, and what was in between."""
        for key in self._copies[name]:
            self._ask(key, lambda line: line.call("forget", [name]))
        known = self._known.pop(name, None)
        if known is not None:
            settled = {**known.settled, "lost": known.settled["lost"] + known.in_flight}
            self._lost += replace(known, settled=settled, in_flight=0)
        self._copies[name] = set()
        return RingState(self._posted[name], self._posted[name], b"")

    def _spec(self, key: str, states: dict[tuple[str, str], RingState]) -> NodeSpec:
        spec = NodeSpec()
        for name, ring in self._wiring.rings.items():
            writer, reader = self._ends(ring)
            if key in (writer, reader):
                peer = "" if writer == reader else reader if key == writer else writer
                spec.rings[name] = RingSpec(
                    ring.layout, ring.slots, ring.writer if key == writer else "", ring.reader if key == reader else "",
                    peer, states.get((name, key)),
                )  # fmt: skip
        for name, box in self._wiring.boxes.items():
            users = tuple(user for user in box.users if self._places.get(user) == key)
            if users or key == self._home.key:
                spec.boxes[name] = self._box_spec(name, box, key, users)
        if self._one_machine(key):
            spec.tallies |= {name: TallySpec(tally.ranks, tally.nbytes) for name, tally in self._wiring.tallies.items()}
        return spec

    def _one_machine(self, key: str) -> bool:
        """All replicas live there."""
        return all(self._places.get(host) == key for host in self._wiring.replicas)

    def meetings(self, host: str) -> dict[str, Any]:
        """How a replica joins the others, where they live on several machines."""
        replicas = self._wiring.replicas
        if host not in replicas or any(self._one_machine(key) for key in self._lines):
            return {}
        if self.meeting is None:
            self.meeting = ray.remote(MeetingPoint).options(num_cpus=0, max_concurrency=64).remote()
        rank = replicas.index(host)
        return {
            name: _Meeting(self.meeting, rank, tally.ranks, tally.nbytes)
            for name, tally in self._wiring.tallies.items()
        }

    def _box_spec(self, name: str, box: BoxPlan, key: str, users: tuple[str, ...]) -> BoxSpec:
        readers = {self._places[user] for user in box.users if user in self._places} | {self._home.key}
        mine = self._publisher(name) == key and not name.startswith("leave/")
        every = self._exact or name.startswith("past/")
        subscribers = tuple(sorted(readers - {key})) if mine else ()
        return BoxSpec(box.nbytes, box.versions, self._halved.get(name, 0), every, users, subscribers)

    def _publisher(self, box: str) -> str:
        """The machine of the trainer that writes it."""
        return self._places.get(self._wiring.writers.get(box, ""), "")

    # ------------------------------------------------------------ what the launcher asks

    def publish(self, name: str, version: int, block: bytes) -> None:
        """Leave for a trainer, on its way to where it lives."""
        key = self._places.get(self._wiring.boxes[name].users[0], "")
        if key == self._home.key:
            self._agent.publish(self._home.key, name, version, block)
        elif key:
            self._agent.post(key, "publish", name, version, block)

    def mailbox(self, name: str) -> Mailbox:
        """The mailbox of that name: the controller's machine has a copy of each."""
        return self._leaves[name] if name in self._leaves else _AtHome(self._agent, name)

    def ring(self, name: str) -> _Counters:
        """The counters of a ring, as its reader's end has them; if that is gone, what the other end knows to be settled."""
        writer, reader = self._ends(self._wiring.rings[name])
        if reader in self._copies[name]:
            found = self._ask(reader, lambda line: line.call("counters", name))
            if found is not None:
                self._posted[name] = found[0]
                return _Counters(*found)
        if writer in self._copies[name]:
            state = self._ask(writer, lambda line: line.call("ring_state", name, writer=False))
            if state is not None:
                return _Counters(state.posted, state.posted)
        return _Counters(self._posted[name], self._posted[name])

    def _ask(self, key: str, question: Callable[[AgentLine], Any]) -> Any:
        """None: that machine is lost."""
        line = self._lines[key]
        if line.dead:
            return None
        try:
            return question(line)
        except LostError:
            return None

    def accounts(self) -> Account:
        """What became of all rows: the books of the readers' ends, and what was lost with whole rings."""
        for key in {self._ends(ring)[1] for ring in self._wiring.rings.values()} - {""}:
            for name, (posted, books) in (self._ask(key, lambda line: line.call("accounts")) or {}).items():
                self._posted[name], self._known[name] = posted, books
        return sum(self._known.values(), self._lost)

    def newest(self, name: str) -> int:
        """The newest version of a mailbox that came to any machine."""
        found = [self._ask(key, lambda line: line.call("newest", name)) for key in list(self._lines)]
        return max(version for version in found if version is not None)

    def everywhere(self, method: str) -> None:
        """Call every agent that lives."""
        for key in list(self._lines):
            self._ask(key, lambda line: line.call(method))

    def traffic(self) -> int:
        """Bytes of fragments that travelled between machines."""
        found = [self._ask(key, lambda line: line.call("traffic")) for key in list(self._lines)]
        return sum(sum(one.values()) for one in found if one)

    def close(self) -> None:
        """Agents other than the controller's own end with their actors."""
        self._agent.close()


class _AtHome(Mailbox):
    """A mailbox that the controller's own agent has, once it was told to."""

    def __init__(self, agent: HostAgent, name: str) -> None:
        self._agent, self._name = agent, name

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        self._agent.mailbox(self._name).publish(version, block, keep)

    def latest(self) -> int:
        return self._agent.mailbox(self._name).latest()

    def read(self, version: int, into: np.ndarray) -> bool:
        return self._agent.mailbox(self._name).read(version, into)
