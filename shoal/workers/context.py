"""What a worker is built with: the Program, its streams, where its life begins, and what a checkpoint holds of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from shoal.api.program import Program, WorkerSpec
from shoal.api.worker import Heartbeat
from shoal.base.arithmetic import Arithmetic, arithmetic_of, make_deterministic
from shoal.base.compiling import while_compiling
from shoal.base.faults import Fault, Faults
from shoal.base.flat import Flat
from shoal.base.tree import Tree
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.worker_state import fits, state_of
from shoal.envs.kept import EnvShelf
from shoal.rollout.plans import Plans
from shoal.streams.parameter import ParameterReader
from shoal.streams.stream_set import Streams

COMPILING = 600.0
"""Seconds that one graph may take to compile."""


@dataclass
class Life:
    """Which life of a process this is, and where it goes on."""

    version: int = 0
    """Of the checkpoint that the run was started from."""
    starts: dict[str, int] = field(default_factory=dict)
    """Policy -> its version at that time."""
    incarnation: int = 0
    """How often the process died since."""
    start: Checkpoint | None = None
    """What its workers go on from."""
    versions: dict[str, int] = field(default_factory=dict)
    """Policy -> the version that its trainer goes on at, where it is not that of the checkpoint."""
    rounds: dict[str, int] = field(default_factory=dict)
    """Policy -> rounds of this launch that are over, or were lost with the trainer's last life."""
    steps: dict[str, int] = field(default_factory=dict)
    """Policy -> environment steps behind that: of all replicas in step, otherwise of the one that lives here."""
    whole: bool = False
    """Rollouts go on where they were when the checkpoint was written."""
    stage: int = 0
    """Of the curriculum, when the run was started."""
    pools: dict[str, list[int]] = field(default_factory=dict)
    """Policy that plays as earlier versions -> their numbers, as the checkpoint held them."""
    weights: dict[str, bytes] = field(default_factory=dict)
    """Policy -> its newest parameters, for a trainer whose next life begins on another machine."""
    evaluated: int = -1
    """The newest version that was evaluated: an evaluation worker goes on with a newer one."""


@dataclass
class Context:
    """Of one process; its workers share it."""

    program: Program
    plans: Plans
    streams: Streams
    life: Life
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    faults: list[Fault] = field(default_factory=list)
    supervised: bool = False
    """Trainers wait for their gate after each update; otherwise whoever polls them sees to it."""
    alone: bool = False
    """A trainer's replica has nobody to agree with: for measuring."""
    checkpoints: Path | None = None
    """Where they lie; None: this machine cannot reach them."""
    shelf: EnvShelf | None = None
    """Where environments are left when their actors are closed; None: they are closed too."""

    def faults_of(self, spec: WorkerSpec) -> Faults:
        """What is to go wrong with a worker, by order."""
        return Faults(self.faults, spec.kind, spec.name, self.life.incarnation)

    def arithmetic(self, device: torch.device) -> Arithmetic:
        """How networks of trainers and policy workers compute there. What torch knows as a setting of the process is set."""
        placement = self.program.experiment.placement
        if placement.deterministic:
            make_deterministic()
        if placement.compile:  # longer than `placement.hang`, maybe
            while_compiling(lambda: self.heartbeat.begin(COMPILING, in_env=False), self.heartbeat.rest)
        return arithmetic_of(placement.precision, device, compile=placement.compile)

    def state_of(self, spec: WorkerSpec) -> Tree | None:
        """What the checkpoint keeps of a worker; None: it begins anew, as it does after a death."""
        start = self.life.start
        if start is None or self.life.incarnation or not fits(self.program, start):
            return None
        return state_of(start, spec.name)

    def reader(self, policy: str, stream: str, flat: Flat) -> ParameterReader:
        """Who keeps a copy of a policy at the version that is due."""
        program, life = self.program, self.life
        begins = life.starts[policy]
        start = max(0, begins - program.max_lag) if life.whole else begins
        mailbox = self.streams.mailbox(stream)
        return ParameterReader(mailbox, flat, max_lag=program.max_lag, start=start, exact=program.exact)
