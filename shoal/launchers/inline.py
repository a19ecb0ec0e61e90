"""The inline launcher: every worker in this one thread, polled in turn over in-memory streams.

Deterministic and easy to step through with a debugger: from `env.step` in the actor's poll to `algorithm.update` in the
trainer's, everything happens on one stack. It is what every other launcher is compared with.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from shoal.api.worker import Worker
from shoal.base.errors import ShoalError
from shoal.checkpoints.checkpoint import Checkpoint, stage_of
from shoal.checkpoints.contents import to_bytes
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.threads import ReplicaThreads
from shoal.program.build import Builder, first_life
from shoal.program.contents import BEFORE, older_versions, saves_contents
from shoal.program.hosts import hosts_of
from shoal.program.program import Program, expand
from shoal.program.stages import STAGE, say_stage
from shoal.program.wiring import plan_wiring
from shoal.streams.sample import Account, account
from shoal.streams.stream_set import MemoryStreams
from shoal.workers.controller import Controller
from shoal.workers.evaluation import EvaluationWorker
from shoal.workers.trainer import TrainerWorker

PAUSE = 0.05
"""Seconds between two looks at a paused run."""


class InlineLauncher:
    """Builds the workers of a program around in-memory streams, then polls them until the controller has a reason to stop."""

    def __init__(
        self, program: Program, start: Checkpoint | None = None, checkpoints: Path | None = None
    ) -> None:  # fmt: skip
        hosts = hosts_of(program)
        wiring = plan_wiring(program, hosts)
        self._streams = MemoryStreams(wiring)
        self._program = program
        self.enter_stage(stage_of(start))
        life = first_life(program, start)
        self.goes_on: bool | None = life.whole
        self.mailboxes = {name: self._streams.mailbox(f"version/{name}") for name in program.policies}
        self._samples = [self._streams.ring(name) for name, plan in wiring.rings.items() if plan.counted]
        self._jobs = sorted((job for host in hosts for job in host.jobs), key=lambda job: _ORDER.index(job.kind))
        # replicas in step need a copy of the parameters each; hogwild ones share the first
        copies = 1 if program.hogwild else program.trainers
        programs = [program, *(expand(program.experiment) for _ in range(copies - 1))]
        builders = [Builder(each, self._streams, life, checkpoints=checkpoints) for each in programs]
        self._trainers = {
            policy: [builders[rank % copies].trainer(policy, rank) for rank in range(program.trainers)]
            for policy in program.policies
        }
        self._others: list[Worker] = [builders[0].build(job) for job in self._jobs if job.kind != "trainer"]
        self._judges = [worker for worker in self._others if isinstance(worker, EvaluationWorker)]
        self._workers = [*self._others, *_polled(list(self._trainers.values()), threads=copies > 1)]

    def run(self, controller: Controller) -> str | None:
        """Poll until there is a reason to stop; the name of the signal that ended it, if one did."""
        with Interrupts() as interrupts:
            while controller.reason is None:
                controller.listen()
                if interrupts.caught:
                    controller.stop(f"interrupted by {interrupts.caught}")
                elif controller.paused:
                    time.sleep(PAUSE)
                elif not self._sweep(controller):
                    raise ShoalError("no worker can go on: a worker waits for something that nobody will give")
            return interrupts.caught

    def _sweep(self, controller: Controller) -> bool:
        worked = False
        for worker in self._workers:
            report = worker.poll(0.0)
            worked |= report.worked
            controller.receive(report)
            if controller.reason is not None:  # else the next policy's trainer might be one version further
                break
        return worked

    def evaluate(self, version: int) -> None:
        """A version is saved, and due to be judged."""
        self._streams.mailbox("evaluate").publish(version, np.zeros(1, np.uint8))

    def judge(self, controller: Controller, done: Callable[[], bool]) -> None:
        """Let the evaluation worker go on, and nobody else, until it is `done`; a signal ends it."""
        with Interrupts() as interrupts:
            while not (done() or interrupts.caught):
                for worker in self._judges:
                    controller.receive(worker.poll(0.0))

    def quiet(self) -> None:
        """Nothing else runs while this thread is here."""

    def states(self) -> dict[str, Tensor]:
        """All that a checkpoint keeps, as `policy/name`."""
        first = [trainers[0] for trainers in self._trainers.values()]
        return {f"{t.policy}/{name}": tensor for t in first for name, tensor in t.state_dict().items()}

    def contents(self, version: int) -> dict[str, bytes]:
        """What workers hold, for a checkpoint of `version`."""
        if not saves_contents(self._program):
            return {}
        trainers = [trainer for replicas in self._trainers.values() for trainer in replicas]
        held = {worker.name: to_bytes(worker.contents(version)) for worker in [*self._others, *trainers]}
        return {**held, BEFORE: older_versions(self._program, self.mailboxes, version)}

    def enter_stage(self, stage: int) -> None:
        """Tell actors which stage of the curriculum the run is in."""
        if self._program.experiment.curriculum:
            say_stage(self._streams.mailbox(STAGE), stage)

    def accounts(self) -> Account:
        """What became of all rows."""
        return sum(map(account, self._samples[1:]), account(self._samples[0]))

    def workers(self) -> list[dict[str, Any]]:
        """Who works, for the panel."""
        facts = {"pid": os.getpid(), "state": "alive", "restarts": 0}
        return [{"name": job.name, "kind": job.kind, **facts} for job in self._jobs]

    def close(self) -> None:
        """Free what the workers hold."""
        for worker in self._workers:
            worker.close()


_ORDER = ("actor", "policy", "buffer", "trainer", "evaluation")


def _polled(trainers: list[list[TrainerWorker]], *, threads: bool) -> list[Worker]:
    """Policies in turn; the replicas of each at once where they wait for each other, otherwise one after the other."""
    if threads:
        return [ReplicaThreads(replicas) for replicas in trainers]
    return [replica for replicas in trainers for replica in replicas]
