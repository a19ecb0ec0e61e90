"""A Program: an experiment expanded, as data. Which policies there are, which workers, in which processes, joined by which streams.

It holds no network and no open environment, follows from the experiment alone, and goes through JSON unchanged. A launcher runs it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, TypeVar

from shoal.api.cluster import ResourcesConfig
from shoal.api.env import Footprint
from shoal.api.experiment import ActorRange, Experiment
from shoal.api.messages import Message
from shoal.api.policy_spec import Opponent, PolicyPlan, PolicySpec
from shoal.api.worker import Worker
from shoal.base.arrays import Layout
from shoal.base.config import Config
from shoal.base.errors import InputError
from shoal.base.plain import from_plain, register, to_plain
from shoal.base.table import import_target

T = TypeVar("T")

CONTROLLER = "controller"
"""The end of a stream that is no process of the Program: that of whoever runs it."""


# ---------------------------------------------------------------- ports


@dataclass(frozen=True)
class RingShape:
    """Fixed slots from one writer to one reader."""

    layout: Layout
    slots: int
    counted: bool = False
    """Its slots have headers from which the rows of a run are counted."""


@dataclass(frozen=True)
class MailboxShape:
    """The newest versions of one block of bytes, from one writer to many readers."""

    nbytes: int
    versions: int = 1
    every: bool = False
    """All versions travel between machines, not only the newest."""
    halved: int = 0
    """Bytes of float32 at its beginning that may travel between machines as float16."""


@dataclass(frozen=True)
class TallyShape:
    """Vectors summed over replicas."""

    nbytes: int


@dataclass(frozen=True)
class SharedShape:
    """Parameters that several replicas write, and what else they share."""

    nbytes: int
    beside: int


Shape = RingShape | MailboxShape | TallyShape | SharedShape


@dataclass(frozen=True)
class Port:
    """One end of a stream. Who writes says what it is like; where the controller writes, who reads does."""

    stream: str
    end: Literal["write", "read"]
    shape: Shape | None = None
    from_controller: bool = False


# ---------------------------------------------------------------- streams


@dataclass(frozen=True)
class RingStream:
    """A ring, and the processes at its two ends."""

    layout: Layout
    slots: int
    writer: str
    reader: str
    counted: bool = False
    """Its slots have headers from which the rows of a run are counted."""


@dataclass(frozen=True)
class MailboxStream:
    """Versions of a block: the process that writes, and those that read."""

    nbytes: int
    versions: int
    writer: str
    readers: tuple[str, ...]
    every: bool = False
    """All versions travel between machines, not only the newest."""
    halved: int = 0
    """Bytes of float32 at its beginning that travel between machines as float16."""

    @property
    def users(self) -> tuple[str, ...]:
        """The processes at its ends; not the controller."""
        return tuple(dict.fromkeys(name for name in (self.writer, *self.readers) if name != CONTROLLER))


@dataclass(frozen=True)
class TallyStream:
    """Where replicas meet: the processes of the ranks, in their order."""

    nbytes: int
    ranks: tuple[str, ...]


@dataclass(frozen=True)
class SharedStream:
    """Parameters that several replicas write, in the place of a mailbox; `beside` is what else they share."""

    nbytes: int
    beside: int
    writers: tuple[str, ...]
    readers: tuple[str, ...]


Stream = RingStream | MailboxStream | TallyStream | SharedStream


# ---------------------------------------------------------------- processes


@dataclass(frozen=True)
class Process:
    """One process and its workers, in the order in which they are polled."""

    name: str
    workers: tuple[WorkerSpec, ...]
    resources: dict[str, float]
    """What a cluster reserves for it."""
    device: str = "cpu"
    """Of its worker with networks, by name."""
    fate: str = ""
    """Processes of equal fate go down and come back together."""
    needed: bool = True
    """The run does not go on without it; others come and go with the machines."""
    pinned: bool = True
    """It works all the time, so it may keep to a core of its own."""
    at_home: bool = False
    """It works with the run's folder, so it lives on the machine that has it: the controller's."""
    threads: int = 1
    """Of its worker that computes with the most."""


@dataclass(frozen=True)
class Program:
    """What a launcher runs."""

    experiment: Experiment
    """With every setting resolved."""
    policies: dict[str, PolicySpec]
    """All that play, in the order of the environment's agents."""
    game_return: Literal["sum", "mean"]
    """How the game states a return."""
    processes: tuple[Process, ...] = ()
    """Those with trainers first."""
    streams: dict[str, Stream] = field(default_factory=dict)
    opponents: tuple[Opponent, ...] = ()
    """Whom the policies that learn are evaluated against; none: everyone plays as in training."""
    footprint: Footprint | None = None
    """What processes of the environment's own take, of one that was looked at; None: there are none."""

    @property
    def learners(self) -> tuple[str, ...]:
        """The policies that learn."""
        return tuple(name for name, spec in self.policies.items() if spec.learns)

    @property
    def workers(self) -> list[WorkerSpec]:
        """Of all processes."""
        return [worker for process in self.processes for worker in process.workers]

    def process(self, name: str) -> Process:
        """The process of that name."""
        return next(process for process in self.processes if process.name == name)

    # ------------------------------------------------------------ sizes

    @property
    def max_lag(self) -> int:
        """How many versions old experience may be."""
        return resolved(self.experiment.placement.max_lag)

    @property
    def slots(self) -> int:
        """Slots per sample ring: the credits that enforce `max_lag`."""
        return self.max_lag + 1

    @property
    def exact(self) -> bool:
        """Equal bits under every launcher."""
        return resolved(self.experiment.placement.exact)

    @property
    def actors(self) -> int:
        """Actor workers, at most."""
        return self._range.max

    @property
    def fewest_actors(self) -> int:
        """Actor workers that must be there; those beyond come and go."""
        return self._range.min

    @property
    def _range(self) -> ActorRange:
        actors = self.experiment.placement.actors
        assert actors is not None, "resolved by expand"
        return actors if isinstance(actors, ActorRange) else ActorRange(min=actors, max=actors)

    @property
    def producers(self) -> int:
        """Envs in the rings of all actors: each has lanes and sample rings of its own."""
        return self.actors * self.experiment.placement.ring

    @property
    def envs_per_producer(self) -> int:
        """Env copies of each."""
        return self.experiment.env.num_envs // self.producers

    @property
    def trainers(self) -> int:
        """Replicas of each trainer."""
        return resolved(self.experiment.placement.trainers)

    @property
    def threads(self) -> int:
        """With which a trainer learns."""
        threads = self.experiment.placement.threads
        assert threads != "auto", "resolved by expand"
        return threads

    @property
    def buffers(self) -> int:
        """Buffer workers of each policy that replays; 0: trainers replay themselves."""
        return self.experiment.placement.buffers

    def rank_of(self, producer: int) -> int:
        """Which replica learns from it."""
        return producer * self.trainers // self.producers

    def producers_of(self, rank: int) -> list[int]:
        """Whom a replica learns from, in their order."""
        return [producer for producer in range(self.producers) if self.rank_of(producer) == rank]

    # ------------------------------------------------------------ as text

    def to_json(self) -> str:
        """All of it."""
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, text: str) -> Program:
        """The Program that `to_json` was called on."""
        program = from_plain(json.loads(text))
        assert isinstance(program, cls)
        return program


# ---------------------------------------------------------------- workers


class WorkerSpec(Config):
    """One worker, as data. Each kind has its own, beside its worker: `kind` is its name in tables, metrics and faults."""

    kind: ClassVar[str]
    target: ClassVar[str] = ""
    """Where a user's own class was found: `module:Class` or `file.py:Class`."""
    events: ClassVar[tuple[str, ...]] = ()
    """What can be counted for faults on order: see `shoal.base.faults`."""
    rank_in_process: ClassVar[int] = 50
    """Workers of one process are polled in the order of this number."""
    leads: ClassVar[int] = 0
    """Of the workers of a process, the one with the greatest number says what a cluster reserves; such processes come first."""
    steps_env: ClassVar[bool] = False
    """It opens environments, which may hang."""
    hears: ClassVar[tuple[type[Message], ...]] = ()
    """Messages of other workers that it is told of, as the order `Heard`."""
    concludes: ClassVar[bool] = False
    """When training is over it is told `Conclude`, and the run ends once it has said `Concluded`."""
    keeps: ClassVar[str] = ""
    """What its state is to a resumed run: `rollouts`, `replay`, or nothing that has a name."""
    pinned: ClassVar[bool] = True
    """It works all the time: its process may keep to a core of its own."""
    at_home: ClassVar[bool] = False
    """It works with the run's folder, which other machines of a cluster need not reach: it lives on the controller's."""

    name: str
    """Of the worker, unique in the run."""

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        """The workers of this kind that an experiment has. `program` has its policies, and no processes yet."""
        return [cls(name=cls.kind)]

    def process(self, program: Program) -> str:
        """The process it lives in."""
        return self.name

    def device(self, program: Program) -> str:
        """Where its networks live, by name: `cpu`, `cuda`, `cuda:1`."""
        return "cpu"

    def threads(self, program: Program) -> int:
        """With which it computes, at most."""
        return 1

    def fate(self, program: Program) -> str:
        """Processes whose workers name the same word here go down and come back together. Empty: its own."""
        return ""

    def needed(self, program: Program) -> bool:
        """The run does not go on without it; others come and go with the machines of a cluster."""
        return True

    def resources(self, program: Program) -> ResourcesConfig:
        """What a cluster reserves for its process: a core for each thread, an accelerator where its networks live on one."""
        requested, threads = program.experiment.placement.cluster.of(self.kind), self.threads(program)
        changes = {"cpus": float(threads)} if threads > max(1.0, requested.cpus) else {}
        if not requested.gpus and self.device(program).startswith("cuda"):
            changes["gpus"] = 1.0
        return requested.model_copy(update=changes)

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        """The streams it reads and writes. `plans`: the policies that learn, as they are built for this alone."""
        return []

    @abstractmethod
    def build(self, context: Any) -> Worker:
        """The worker itself, in its process: see `shoal.workers.context.Context`."""


def load_kind(target: str, name: str, key: str = "workers") -> type[WorkerSpec]:
    """A kind of the user's own: the class that `module:Class` or `file.py:Class` names, under the name that it is given."""
    cls = import_target(target, key=key)
    if not (isinstance(cls, type) and issubclass(cls, WorkerSpec)):
        raise InputError(
            f"{key} = '{target}' is no WorkerSpec: let the class inherit from shoal.api.program.WorkerSpec"
        )
    if (name, target) not in _KINDS:
        own = {"kind": name, "target": target, "__module__": cls.__module__, "__doc__": cls.__doc__}
        _KINDS[name, target] = type(cls)(cls.__name__, (cls,), own)  # type: ignore[misc]
    return _KINDS[name, target]


_KINDS: dict[tuple[str, str], type[WorkerSpec]] = {}


def _encode(spec: WorkerSpec) -> list[Any]:
    cls = type(spec)
    return [cls.target or f"{cls.__module__}:{cls.__qualname__}", cls.kind if cls.target else "", spec.model_dump()]


def _decode(plain: list[Any]) -> WorkerSpec:
    target, name, values = plain
    cls = load_kind(target, name) if name else import_target(target, key="workers")
    spec = cls.model_validate(values)
    assert isinstance(spec, WorkerSpec)
    return spec


register("worker", WorkerSpec, _encode, _decode)


def resolved(value: T | None) -> T:
    """What `expand` has filled in."""
    assert value is not None, "resolved by expand"
    return value
