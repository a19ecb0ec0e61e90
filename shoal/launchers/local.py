"""The local launcher: actors in processes of their own, trainers and controller in this one, shared memory between them.

Actors sample on the other cores while this process learns; `max_lag` says how far ahead they may run. Equal settings give equal
weights under `inline` and `local`, bit for bit.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

from shoal.base.errors import ShoalError
from shoal.checkpoints.store import Checkpoint
from shoal.launchers.actor_process import ActorOrder, serve_actor
from shoal.launchers.build import build_trainer
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.program import Program
from shoal.streams.control import STOP, ControlEnd
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import ShmRing
from shoal.workers.controller import Controller
from shoal.workers.trainer import TrainerWorker

POLL = 0.1
"""Seconds the trainer waits for fragments before signals and processes are looked at."""
PATIENCE = 5.0
"""Seconds an actor has to stop before it is killed."""


class LocalLauncher:
    """Owns the shared memory and the processes of a run on one machine."""

    def __init__(self, program: Program, start: Checkpoint | None = None, *, logs: Path) -> None:
        self.mailboxes: dict[str, Mailbox] = {}
        self.trainers: dict[str, TrainerWorker] = {}
        self._boxes: dict[str, ShmMailbox] = {}
        self._rings: list[dict[str, ShmRing]] = [{} for _ in range(program.actors)]
        self._logs = logs
        for name, plan in program.policies.items():
            for own in self._rings:
                own[name] = ShmRing(plan.layout(program.actors), program.slots)
            box = self._boxes[name] = self.mailboxes[name] = ShmMailbox(plan.algorithm.flat.nbytes, program.slots)
            self.trainers[name] = build_trainer(program, name, [own[name] for own in self._rings], box, start)
        self._links: list[tuple[BaseProcess, ControlEnd]] = []
        for index in range(program.actors):
            self._links.append(self._start(program, index, start.version if start else 0))

    def _start(self, program: Program, index: int, version: int) -> tuple[BaseProcess, ControlEnd]:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["shoal.launchers.actor_process"])
        here, there = context.Pipe()
        rings = {name: ring.handle for name, ring in self._rings[index].items()}
        mailboxes = {name: box.handle for name, box in self._boxes.items()}
        order = ActorOrder(
            os.getpid(), program.experiment.model_dump(), index, rings, mailboxes, version, str(self._logs)
        )
        process = context.Process(target=serve_actor, args=(order, there), name=f"actor-{index}", daemon=True)
        with _without_main():
            process.start()
        there.close()
        return process, ControlEnd(here)

    def run(self, controller: Controller) -> str | None:
        """Train on what the actors send until there is a reason to stop; the signal that ended it, if one did."""
        with Interrupts() as interrupts:
            while controller.reason is None:
                for trainer in self.trainers.values():
                    report = trainer.poll(POLL)
                    self._listen(controller)
                    controller.receive(report)
                self._watch(controller)
                if interrupts.caught:
                    controller.stop(f"interrupted by {interrupts.caught}")
            return interrupts.caught

    def _listen(self, controller: Controller) -> None:
        for _, control in self._links:
            while (said := control.take()) is not None:
                if not isinstance(said, str):
                    controller.receive(said)

    def _watch(self, controller: Controller) -> None:
        """A dead actor ends the run: what it said last, or else how it died."""
        for process, _ in self._links:
            if process.exitcode is not None:
                self._listen(controller)
                code = process.exitcode
                cause = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                raise ShoalError(
                    f"{process.name} ended {cause}: see {self._logs / process.name}.log, then go on with --resume"
                )

    def close(self) -> None:
        """Stop the actors, kill those that do not, free the memory."""
        for _, control in self._links:
            control.order(STOP)
        for process, control in self._links:
            process.join(PATIENCE)
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()
            control.close()
        for own in self._rings:
            for ring in own.values():
                ring.close()
        for box in self._boxes.values():
            box.close()


@contextmanager
def _without_main() -> Iterator[None]:
    """Start a process that does not import the user's script again: nothing in there is needed to act."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
