"""The streams of a run on many machines, as its controller has them: which machine has which end, and what that asks of each agent.

Every change of place ends in one call per agent, with all that its machine has a part in. Agents see for themselves what is new.
The controller's own ends lie in the memory of its own agent, as those of any other process that lives on its machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.api.program import CONTROLLER, MailboxStream, RingStream, Stream, TallyStream
from shoal.base.errors import ShoalError
from shoal.streams.primitives import Mailbox, Ring
from shoal.streams.sample import NOTHING, Account
from shoal.streams.shared_streams import Counters
from shoal.streams.transports.ray.agent import MachineAgent
from shoal.streams.transports.ray.gloo import Meeting, MeetingPoint
from shoal.streams.transports.ray.relay import RingState
from shoal.streams.transports.ray.specs import BoxSpec, NodeSpec, RingSpec, TallySpec

PATIENCE = 60.0
"""Seconds an agent has to answer: a link may be cut for a while."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class AgentLine:
    """How the controller calls an agent: its own directly, another through Ray."""

    def __init__(self, key: str, agent: MachineAgent | None, handle: Any) -> None:
        self.key, self._agent, self.handle = key, agent, handle
        self.dead = False

    def call(self, method: Callable[Concatenate[MachineAgent, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """And wait for the answer."""
        if self._agent is not None:
            return method(self._agent, *args, **kwargs)
        try:
            answer: _R = ray.get(self.ask(method, *args, **kwargs), timeout=PATIENCE)
        except ray.exceptions.RayActorError as error:
            self.dead = True
            raise LostError(f"the machine {self.key} is lost") from error
        except ray.exceptions.GetTimeoutError as error:
            raise ShoalError(f"the machine {self.key} has not answered for {PATIENCE:g} s") from error
        return answer

    def tell(self, method: Callable[Concatenate[MachineAgent, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """And not wait."""
        if self._agent is not None:
            method(self._agent, *args, **kwargs)
        else:
            self.ask(method, *args, **kwargs)

    def ask(self, method: Callable[Concatenate[MachineAgent, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> Any:
        """Of another machine, and not wait: Ray's reference to the answer."""
        return self.handle.do.remote(method, args, kwargs)


class LostError(ShoalError):
    """A machine is gone, or its agent."""


@dataclass
class _Tally:
    """Where the replicas of a trainer meet: in the memory of a machine that has them all, otherwise at a point of their own."""

    streams: RayStreams

    def renew(self) -> None:
        self.streams.everywhere(MachineAgent.renew)
        self.streams.next_meeting()

    def abandon(self) -> None:
        self.streams.everywhere(MachineAgent.abandon)


class RayStreams:
    """`home`: the controller's own agent."""

    def __init__(self, streams: Mapping[str, Stream], home: AgentLine, agent: MachineAgent) -> None:
        self._home, self._agent = home, agent
        self._rings = {name: plan for name, plan in streams.items() if isinstance(plan, RingStream)}
        self._boxes = {name: plan for name, plan in streams.items() if isinstance(plan, MailboxStream)}
        self._tallies = {name: plan for name, plan in streams.items() if isinstance(plan, TallyStream)}
        self._lines: dict[str, AgentLine] = {home.key: home}
        self._places: dict[str, str] = {}
        self._copies: dict[str, set[str]] = {name: set() for name in self._rings}
        self._known: dict[str, Account] = {}
        self._posted: dict[str, int] = dict.fromkeys(self._rings, 0)
        self._lost = NOTHING
        self.tallies = {name: _Tally(self) for name in self._tallies}
        self.points: dict[str, Any] = {}
        self._meeting = 0
        self.place({CONTROLLER: home.key}, {})

    # ------------------------------------------------------------ places

    def line(self, process: str) -> AgentLine:
        """The agent of the machine where a process lives."""
        return self._lines[self._places[process]]

    def place(self, places: dict[str, str], lines: dict[str, AgentLine]) -> None:
        """Processes have found new places; `lines` are all agents that live."""
        self._lines = {self._home.key: self._home, **lines}
        self._places = {name: key for name, key in {**self._places, **places}.items() if key in self._lines}
        for name in self._copies:
            self._copies[name] &= self._lines.keys()
        states = dict(self._new_states())
        peers = {CONTROLLER: self._home.handle, **{key: line.handle for key, line in self._lines.items()}}
        news = set(places.values())
        # a reader's end is there before anything is sent to it
        for key in sorted(self._lines, key=lambda key: key not in news):
            self._ask(key, MachineAgent.connect, {other: handle for other, handle in peers.items() if other != key})
            self._ask(key, MachineAgent.configure, self._spec(key, states))

    def _ends(self, ring: RingStream) -> tuple[str, str]:
        return self._places.get(ring.writer, ""), self._places.get(ring.reader, "")

    def _new_states(self) -> Iterator[tuple[tuple[str, str], RingState]]:
        """(ring, machine) -> where its new copy goes on: after the other end, or, if both are gone, after what is known."""
        for name, ring in self._rings.items():
            writer, reader = self._ends(ring)
            ends, copies = {writer, reader} - {""}, self._copies[name]
            missing, living = ends - copies, ends & copies
            state = None
            if missing and living:
                (other,) = living
                state = self._ask(other, MachineAgent.ring_state, name, writer=other == reader)
            if missing and state is None and (copies or self._posted[name]):
                state = self._begin_anew(name)
            for key in missing:
                if state is not None:
                    yield (name, key), state
            self._copies[name] = ends  # a machine that has no end of it any more gives its copy up

    def _begin_anew(self, name: str) -> RingState:
        """Both ends are gone, and what was in between."""
        for key in self._copies[name]:
            self._ask(key, MachineAgent.forget, [name])
        known = self._known.pop(name, None)
        if known is not None:
            outcomes = {**known.outcomes, "lost": known.outcomes["lost"] + known.in_flight}
            self._lost += replace(known, outcomes=outcomes, in_flight=0)
        self._copies[name] = set()
        return RingState(self._posted[name], self._posted[name], b"")

    def _spec(self, key: str, states: dict[tuple[str, str], RingState]) -> NodeSpec:
        spec = NodeSpec()
        for name, ring in self._rings.items():
            writer, reader = self._ends(ring)
            if key in (writer, reader):
                peer = "" if writer == reader else reader if key == writer else writer
                spec.rings[name] = RingSpec(
                    ring.layout, ring.slots, ring.writer if key == writer else "", ring.reader if key == reader else "",
                    peer, states.get((name, key)), ring.counted,
                )  # fmt: skip
        for name, box in self._boxes.items():
            users = tuple(user for user in box.users if self._places.get(user) == key)
            if users or (key == self._home.key and self._is_out(box)):
                spec.boxes[name] = self._box_spec(name, box, key, users)
        spec.tallies |= {
            name: TallySpec(len(tally.ranks), tally.nbytes)
            for name, tally in self._tallies.items()
            if self._on_one_machine(tally, key)
        }
        return spec

    def _is_out(self, box: MailboxStream) -> bool:
        """The controller's machine has a copy of each mailbox: of its own from the first, of others once somebody has a place."""
        return box.writer == CONTROLLER or len(self._places) > 1

    def _on_one_machine(self, tally: TallyStream, key: str) -> bool:
        """All replicas live there."""
        return all(self._places.get(process) == key for process in tally.ranks)

    def meetings(self, process: str) -> dict[str, Meeting]:
        """Where a replica meets the others, if they live on several machines: at `points` of the same names."""
        found = {}
        for name, tally in self._tallies.items():
            if process not in tally.ranks or any(self._on_one_machine(tally, key) for key in self._lines):
                continue
            if name not in self.points:
                self.points[name] = _point_at_home()
            rank, ranks = tally.ranks.index(process), len(tally.ranks)
            found[name] = Meeting(name, rank, ranks, tally.nbytes, self._meeting)
        return found

    def _box_spec(self, name: str, box: MailboxStream, key: str, users: tuple[str, ...]) -> BoxSpec:
        """What the controller publishes is small and waited for: it waits for nothing else that is on its way."""
        readers = {self._places[user] for user in box.users if user in self._places} | {self._home.key}
        written_here = self._places.get(box.writer) == key
        every = box.every or box.writer == CONTROLLER
        subscribers = tuple(sorted(readers - {key})) if written_here else ()
        return BoxSpec(box.nbytes, box.versions, box.halved, every, users, subscribers)

    # ------------------------------------------------------------ what the launcher asks

    def mailbox(self, name: str) -> Mailbox:
        """The controller's machine has a copy of each; what the controller publishes goes to every machine with a reader."""
        return _AtHome(self._agent, name)

    def ring(self, name: str) -> Ring:
        """A ring of which the controller itself is an end; of any other it can have the counters."""
        return self._agent.ring(name)

    def counters(self, name: str) -> Counters:
        """Of a ring, as its reader's end has them; if that is gone, what the other end knows of outcomes."""
        writer, reader = self._ends(self._rings[name])
        if reader in self._copies[name]:
            found = self._ask(reader, MachineAgent.counters, name)
            if found is not None:
                self._posted[name] = found.posted
                return found
        if writer in self._copies[name]:
            state = self._ask(writer, MachineAgent.ring_state, name, writer=False)
            if state is not None:
                return Counters(state.posted, state.posted, state.posted)
        return Counters(self._posted[name], self._posted[name], self._posted[name])

    def _ask(
        self, key: str, method: Callable[Concatenate[MachineAgent, _P], _R], *args: _P.args, **kwargs: _P.kwargs
    ) -> _R | None:
        """None: that machine is lost."""
        line = self._lines[key]
        if line.dead:
            return None
        try:
            return line.call(method, *args, **kwargs)
        except LostError:
            return None

    def accounts(self) -> Account:
        """What became of all rows: the ledgers of the readers' ends, and what was lost with whole rings."""
        for key in {self._ends(ring)[1] for ring in self._rings.values() if ring.counted} - {""}:
            for name, (posted, ledger) in (self._ask(key, MachineAgent.accounts) or {}).items():
                self._posted[name], self._known[name] = posted, ledger
        return sum(self._known.values(), self._lost)

    def newest(self, name: str) -> int:
        """The newest version of a mailbox that came to any machine."""
        return max(self.everywhere(MachineAgent.newest, name))

    def everywhere(
        self, method: Callable[Concatenate[MachineAgent, _P], _R], *args: _P.args, **kwargs: _P.kwargs
    ) -> list[_R]:
        """Call every agent; the answers of those that live."""
        found = [self._ask(key, method, *args, **kwargs) for key in list(self._lines)]
        return [answer for answer in found if answer is not None]

    def traffic(self) -> int:
        """Bytes of fragments that travelled between machines."""
        return sum(self.everywhere(MachineAgent.traffic))

    def versions_sent(self) -> dict[str, int]:
        """Mailbox -> versions that travelled from one machine to another."""
        found: Counter[str] = Counter()
        for sent in self.everywhere(MachineAgent.versions_sent):
            found.update(sent)
        return dict(found)

    def next_meeting(self) -> None:
        """Replicas that start again meet anew, at points that are there: a new one would take seconds to come up."""
        self._meeting += 1

    def _end_points(self) -> None:
        """Nobody meets there any more. A controller outlives its run for a while, and so would they."""
        for point in self.points.values():
            ray.kill(point)
        self.points.clear()

    def close(self) -> None:
        """Agents other than the controller's own end with their actors."""
        self._end_points()
        self._agent.close()


def _point_at_home() -> Any:
    """On the controller's machine: whatever other machine dies, replicas can meet there again."""
    home = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(MeetingPoint).options(num_cpus=0, max_concurrency=64, scheduling_strategy=home).remote()


class _AtHome(Mailbox):
    """A mailbox that the controller's own agent has, once it was told to."""

    def __init__(self, agent: MachineAgent, name: str) -> None:
        self._agent, self._name = agent, name

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        self._agent.mailbox(self._name).publish(version, block, keep)

    def latest(self) -> int:
        return self._agent.mailbox(self._name).latest()

    def read(self, version: int, into: np.ndarray) -> bool:
        return self._agent.mailbox(self._name).read(version, into)
