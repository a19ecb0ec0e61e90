"""The named streams that join the workers of a Program: planned once, then made of memory or of shared memory.

sample/<producer>/<policy>    ring      actor -> trainer, or buffer worker
batch/<shard>/<policy>        ring      buffer worker -> trainer
priority/<shard>/<policy>     ring      trainer -> buffer worker
ask/... and answer/...        rings     actor <-> policy worker
version/<policy>              mailbox   trainer -> whoever acts
leave/<policy>/<rank>         mailbox   controller -> trainer
contents                      mailbox   controller -> all others: the version whose checkpoint shall hold what they hold
stage                         mailbox   controller -> actor: the stage of the curriculum that the run is in
evaluate                      mailbox   controller -> evaluation worker: the version that is due, and nothing else
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from shoal.algorithms.agreement import nbytes_beside, tally_nbytes
from shoal.api.algorithm import Algorithm
from shoal.api.experiment import PastConfig
from shoal.base.arrays import Layout
from shoal.program.contents import CONTENTS, saves_contents
from shoal.program.hosts import Host, Job, clients_of, host_of
from shoal.program.program import Program
from shoal.program.shards import shard_of
from shoal.program.stages import STAGE
from shoal.streams import batch, inference_rings, leave
from shoal.streams.primitives import Mailbox, Ring, Tally, Waiter
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing, NoWaiting
from shoal.streams.transports.memory_tally import MemoryTally


class RingPlan(NamedTuple):
    """One ring, and the hosts at its two ends."""

    layout: Layout
    slots: int
    writer: str
    reader: str


class BoxPlan(NamedTuple):
    """One mailbox, and the hosts that read it; whoever writes is among them or is the launcher."""

    nbytes: int
    versions: int
    users: tuple[str, ...]


class TallyPlan(NamedTuple):
    """One tally, and the hosts that take part."""

    ranks: int
    nbytes: int
    users: tuple[str, ...]


class SharedPlan(NamedTuple):
    """Parameters that hogwild replicas write, in the place of a mailbox; `beside` is what else they share."""

    nbytes: int
    replicas: int
    beside: int
    users: tuple[str, ...]


@dataclass
class Wiring:
    """All streams of a Program, by name."""

    rings: dict[str, RingPlan] = field(default_factory=dict)
    boxes: dict[str, BoxPlan] = field(default_factory=dict)
    tallies: dict[str, TallyPlan] = field(default_factory=dict)
    shared: dict[str, SharedPlan] = field(default_factory=dict)
    writers: dict[str, str] = field(default_factory=dict)
    """Mailbox -> the host that writes it, where the launcher does not."""
    replicas: tuple[str, ...] = ()
    """The hosts of the trainers, by rank."""


class Streams(Protocol):
    """The streams as one process has them."""

    waiter: Waiter
    wake: Callable[[], None] | None
    """What a thread of this process calls to end a wait; None: nobody ever waits here."""

    def ring(self, name: str) -> Ring:
        """The ring of that name."""

    def mailbox(self, name: str) -> Mailbox:
        """The mailbox of that name."""

    def publisher(self, name: str, rank: int) -> Mailbox:
        """The mailbox as one replica of its writer has it."""

    def tally(self, name: str) -> Tally:
        """The tally of that name."""

    def settle(self, name: str, algorithm: Algorithm) -> None:
        """Let an algorithm live in the memory of that name, if its replicas share one."""


def plan_wiring(program: Program, hosts: list[Host]) -> Wiring:
    """Which streams there are, how large, and who uses them."""
    wiring = Wiring(replicas=tuple(host.name for host in hosts if host.has("trainer")))
    for policy, plan in program.policies.items():
        layout = plan.layout(program.producers)
        for producer in range(program.producers):
            keeper = Job("trainer", program.rank_of(producer), policy)
            if program.shards(plan):
                keeper = Job("buffer", shard_of(program, producer), policy)
            wiring.rings[f"sample/{producer}/{policy}"] = RingPlan(
                layout, program.slots, _actor_of(program, hosts, producer), host_of(hosts, keeper).name
            )
        everyone, nbytes = _players(hosts), plan.algorithm.flat.nbytes
        wiring.writers[f"version/{policy}"] = host_of(hosts, Job("trainer", 0, policy)).name
        if program.hogwild:
            beside = nbytes_beside(plan.algorithm)
            wiring.shared[f"version/{policy}"] = SharedPlan(nbytes, program.trainers, beside, everyone)
        else:
            wiring.boxes[f"version/{policy}"] = BoxPlan(nbytes, program.slots, everyone)
        if program.trainers > 1 and not program.hogwild:
            wiring.tallies[f"tally/{policy}"] = TallyPlan(program.trainers, tally_nbytes(plan.algorithm), everyone)
        for rank in range(program.trainers):
            trainer = host_of(hosts, Job("trainer", rank, policy)).name
            wiring.boxes[f"leave/{policy}/{rank}"] = BoxPlan(leave.NBYTES, 1, (trainer,))
    wiring.rings.update(_inference_rings(program, hosts))
    wiring.rings.update(_replay_rings(program, hosts))
    wiring.boxes.update(_past_boxes(program, hosts))
    if saves_contents(program):
        wiring.boxes[CONTENTS] = BoxPlan(8, 1, _players(hosts))
    if program.experiment.curriculum:
        wiring.boxes[STAGE] = BoxPlan(1, 1, _players(hosts))
    if judges := tuple(host.name for host in hosts if host.has("evaluation")):
        wiring.boxes["evaluate"] = BoxPlan(1, 1, judges)
    for name, player in program.players.items():
        if player.role.config.past is not None:
            wiring.writers[f"past/{name}"] = wiring.writers[f"version/{player.role.config.past.of}"]
    return wiring


def _past_boxes(program: Program, hosts: list[Host]) -> Iterator[tuple[str, BoxPlan]]:
    """A version that somebody may meet stays until nobody can: some more are kept than are met."""
    for name, plan in program.players.items():
        past = plan.role.config.past
        if past is not None:
            nbytes = program.policies[past.of].algorithm.flat.nbytes
            versions = past.keep + past_slack(program, past) + 1
            yield f"past/{name}", BoxPlan(nbytes, versions, _players(hosts))


def _players(hosts: list[Host]) -> tuple[str, ...]:
    """Who has to do with versions as they are published: whoever judges them reads checkpoints, and is never waited for."""
    return tuple(host.name for host in hosts if not host.has("evaluation"))


def past_slack(program: Program, past: PastConfig) -> int:
    """How many numbers a trainer may be ahead of an actor that looks for earlier versions."""
    return 1 + program.max_lag // past.every


def _inference_rings(program: Program, hosts: list[Host]) -> Iterator[tuple[str, RingPlan]]:
    if program.experiment.placement.inference != "worker":
        return
    for policy, plan in program.policies.items():
        lanes = plan.lanes // program.producers
        group = replace(plan.group, observation_space=plan.sight.asked)
        ask, answer = inference_rings.inference_layouts(group, plan.algorithm.policy, lanes, plan.mask_width)
        for index in range(program.experiment.placement.policy_workers):
            worker = host_of(hosts, Job("policy", index, policy)).name
            for producer in clients_of(program, index):
                actor = _actor_of(program, hosts, producer)
                yield f"ask/{producer}/{policy}", RingPlan(ask, inference_rings.SLOTS, actor, worker)
                yield f"answer/{producer}/{policy}", RingPlan(answer, inference_rings.SLOTS, worker, actor)


def _replay_rings(program: Program, hosts: list[Host]) -> Iterator[tuple[str, RingPlan]]:
    for policy, plan in program.policies.items():
        trainer = host_of(hosts, Job("trainer", 0, policy)).name
        for shard in range(program.shards(plan)):
            buffer = host_of(hosts, Job("buffer", shard, policy)).name
            parts, priorities = plan.rings_of_shard(program.buffers, shard)
            yield f"batch/{shard}/{policy}", RingPlan(parts, batch.AHEAD, buffer, trainer)
            yield f"priority/{shard}/{policy}", RingPlan(priorities, batch.RETURNS, trainer, buffer)


def _actor_of(program: Program, hosts: list[Host], producer: int) -> str:
    return host_of(hosts, Job("actor", producer // program.experiment.placement.ring)).name


class MemoryStreams(Streams):
    """All streams inside one process."""

    def __init__(self, wiring: Wiring) -> None:
        self.waiter, self.wake = NoWaiting(), None
        self._rings = {name: MemoryRing(plan.layout, plan.slots) for name, plan in wiring.rings.items()}
        self._boxes = {name: MemoryMailbox(plan.nbytes, plan.versions) for name, plan in wiring.boxes.items()}
        self._boxes |= {name: MemoryMailbox(plan.nbytes, 1) for name, plan in wiring.shared.items()}
        self._tallies = {name: MemoryTally(plan.ranks, plan.nbytes) for name, plan in wiring.tallies.items()}

    def ring(self, name: str) -> Ring:
        return self._rings[name]

    def mailbox(self, name: str) -> Mailbox:
        return self._boxes[name]

    def tally(self, name: str) -> Tally:
        return self._tallies[name]

    def publisher(self, name: str, rank: int) -> Mailbox:
        return self._boxes[name]

    def settle(self, name: str, algorithm: Algorithm) -> None:
        """Replicas of one process that share parameters share the algorithm itself."""
