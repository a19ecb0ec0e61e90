"""How the replicas of one trainer agree: one concept, one class for each answer, chosen by `placement.agree`.

    allreduce   one gradient, the mean of all: replicas stay equal to the bit, the first publishes
    hogwild     one block of parameters in shared memory that all write, each at its own pace (Recht et al. 2011)
    average     each trains alone, and takes a share of the mean of all every so many updates

A trainer without others is `allreduce` among one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch

from shoal.algorithms.agreement import AllreduceLearner, adopt_shared, nbytes_beside, tally_nbytes
from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Algorithm, Learner
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import MailboxShape, Port, Program, SharedShape, TallyShape, resolved
from shoal.base.config import Config as BaseConfig
from shoal.base.table import Table
from shoal.streams import names
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.shm.shared_block import SharedBlock
from shoal.workers.context import Context

FOREVER = 1e6
"""Seconds that a replica waits for the others: a pause may be long, and a dead one is seen to by the supervisor."""

LIFE = 1 << 40
"""Updates of one life: those of an earlier one are behind all of them."""

PIECE = 1 << 20
"""Bytes that replicas hand on at a time, when they begin again together."""

SYNCS = Table("placement.agree", {
    "allreduce": "shoal.workers.replica_sync:Allreduce",
    "hogwild": "shoal.workers.replica_sync:Hogwild",
    "average": "shoal.workers.average:Average",
})  # fmt: skip


class ReplicaSync(ABC):
    """One replica's side of the agreement about one policy."""

    class Config(BaseConfig):
        """What there is to set."""

    in_step: ClassVar[bool]
    """Replicas count versions together, the first speaks for all, and they go down together; otherwise each for itself."""
    one_machine: ClassVar[bool] = False
    """They share memory."""
    learner: Learner

    def __init__(self, plan: PolicyPlan, rank: int, of: int, context: Context, config: Any) -> None:
        self.policy, self.rank, self.of = plan.name, rank, of
        self._streams, self._config = context.streams, config

    @property
    def speaks(self) -> bool:
        """This replica publishes, and has a gate of its own."""
        return self.rank == 0 or not self.in_step

    @property
    def publishes_alone(self) -> bool:
        """Each replica has a stream of versions of its own."""
        return self.of > 1 and self.version(self.policy, 0) != self.version(self.policy, 1)

    def may_begin(self, updates: int, ready: Callable[[], bool]) -> bool:
        """Whether update number `updates` may begin, if this replica is `ready`. Where replicas wait for each other, all must."""
        return True

    @classmethod
    def version(cls, policy: str, rank: int) -> str:
        """The stream of the versions that the actors of a replica act with."""
        return names.version(policy)

    @classmethod
    @abstractmethod
    def ports(cls, plan: PolicyPlan, program: Program, rank: int) -> list[Port]:
        """The streams between replicas, and that of versions."""

    def adopt(self, algorithm: Algorithm) -> None:
        """Before anything is loaded: let the algorithm live where the replicas want it."""
        return

    def recover(self, algorithm: Algorithm, *, kept: bool) -> None:
        """A life after a death, with what was `kept` of the one before or, if nothing was, what the replicas know of it."""
        return

    def mailbox(self) -> Mailbox:
        """Where this replica publishes."""
        return self._streams.mailbox(self.version(self.policy, self.rank))

    def begin(self, algorithm: Algorithm) -> bool:
        """An update is about to begin; whether parameters were changed before it."""
        return False

    def updated(self, algorithm: Algorithm, updates: int) -> None:
        """An update is done, and not published yet."""
        return


class Allreduce(ReplicaSync):
    """In step, by the mean of gradients."""

    in_step = True

    def __init__(self, plan: PolicyPlan, rank: int, of: int, context: Context, config: Any) -> None:
        super().__init__(plan, rank, of, context, config)
        streams = context.streams
        solo = of == 1 or context.alone
        alive = context.heartbeat.rest
        tally = None if solo else streams.tally(names.tally(plan.name))
        self.learner = SoloLearner(alive) if tally is None else AllreduceLearner(tally, rank, FOREVER, alive)
        ranks = range(of if of > 1 and context.supervised else 0)  # in one process, whoever polls them sees to it
        self._ready = [streams.mailbox(names.ready(plan.name, rank)) for rank in ranks]
        self._first = context.life.incarnation * LIFE
        self._several = bool(self._ready) and len(context.program.learners) > 1

    def may_begin(self, updates: int, ready: Callable[[], bool]) -> bool:
        """The first says go, so that nobody is inside an update when the run rests. Where several policies learn, each says first
        that it is ready: a replica that blocks in the update of one would hold up the actors of the other."""
        if not self._ready:
            return True
        mine, updates = self._ready[self.rank], self._first + updates
        if self.rank and not self._several:
            return self._ready[0].latest() >= updates and ready()
        if mine.latest() < updates:
            others = self._ready[1:] if self.rank == 0 and self._several else []
            if not ready() or any(other.latest() < updates for other in others):
                return False
            mine.publish(updates, np.zeros(1, np.uint8))
        return self._ready[0].latest() >= updates

    def recover(self, algorithm: Algorithm, *, kept: bool) -> None:
        """All begin with what the first has, to the bit: bytes are summed, and those of the others are 0."""
        if self.of > 1:
            algorithm.updates = self._of_the_first(torch.tensor([algorithm.updates]))[0]
            for block in algorithm.blocks():
                for piece in block.split(PIECE):
                    piece.copy_(torch.tensor(self._of_the_first(piece), dtype=torch.uint8))

    def _of_the_first(self, values: torch.Tensor) -> list[int]:
        mine = values.double() if self.rank == 0 else torch.zeros(len(values), dtype=torch.float64)
        return self.learner.mean(mine).mul_(self.of).round_().long().tolist()

    @classmethod
    def ports(cls, plan: PolicyPlan, program: Program, rank: int) -> list[Port]:
        ports = []
        if program.trainers > 1:  # a trainer alone may have nothing to agree about
            ports.append(Port(names.tally(plan.name), "write", TallyShape(tally_nbytes(plan.algorithm))))
            for other in range(program.trainers):
                end: Literal["write", "read"] = "write" if other == rank else "read"
                ports.append(Port(names.ready(plan.name, other), end, MailboxShape(1) if other == rank else None))
        stream, shape = names.version(plan.name), version_shape(plan, program)
        return [*ports, Port(stream, "write", shape) if rank == 0 else Port(stream, "read")]


class Hogwild(ReplicaSync):
    """One memory, no lock."""

    in_step = False
    one_machine = True

    def __init__(self, plan: PolicyPlan, rank: int, of: int, context: Context, config: Any) -> None:
        super().__init__(plan, rank, of, context, config)
        self.learner = SoloLearner(context.heartbeat.rest)

    @classmethod
    def ports(cls, plan: PolicyPlan, program: Program, rank: int) -> list[Port]:
        shape = SharedShape(plan.algorithm.flat.nbytes, nbytes_beside(plan.algorithm))
        return [Port(names.version(plan.name), "write", shape)]

    def adopt(self, algorithm: Algorithm) -> None:
        """The launcher has filled the memory."""
        fill_shared(self._streams, self.policy, algorithm, fill=False)

    def mailbox(self) -> Mailbox:
        shared = self._streams.shared(names.version(self.policy))
        return super().mailbox() if shared is None else shared.counter(self.rank)


class HasShared(Protocol):
    """Streams, as far as this goes."""

    def shared(self, name: str) -> SharedBlock | None:
        """The memory of that name that replicas share."""


def fill_shared(streams: HasShared, policy: str, algorithm: Algorithm, *, fill: bool) -> None:
    """Let an algorithm live in the memory that its replicas share, if they do; whoever comes first fills it."""
    shared = streams.shared(names.version(policy))
    if shared is not None:
        adopt_shared(algorithm, torch.from_numpy(shared.block), torch.from_numpy(shared.beside), fill=fill)


def version_shape(plan: PolicyPlan, program: Program) -> MailboxShape:
    """Of the mailbox in which versions are published."""
    flat, halved = plan.algorithm.flat, program.experiment.placement.cluster.weights == "fp16"
    return MailboxShape(flat.nbytes, program.slots, every=program.exact, halved=flat.parameters.nbytes if halved else 0)


def sync_class(program: Program) -> type[ReplicaSync]:
    """The class that `placement.agree` names; of a trainer alone, the one that does nothing, if it has no parent elsewhere."""
    if program.trainers == 1 and not has_parent(program):
        return Allreduce
    cls: type[ReplicaSync] = SYNCS.load(resolved(program.experiment.placement.agree).name)
    return cls


def has_parent(program: Program) -> bool:
    """The run is a child: its replicas are mixed with a parent elsewhere."""
    return resolved(program.experiment.placement.agree).rest.get("parent") is not None


def make_sync(program: Program, plan: PolicyPlan, rank: int, context: Context) -> ReplicaSync:
    """One replica's."""
    cls = sync_class(program)
    section = resolved(program.experiment.placement.agree)
    config = cls.Config.parse(section.rest, at="placement.agree") if cls is not Allreduce else None
    return cls(plan, rank, program.trainers, context, config)
