"""The local launcher: actors in processes of their own, trainers and controller in this one, shared memory between them.

Actors sample on the other cores while this process learns; `max_lag` says how far ahead they may run. Equal settings give equal
weights under `inline` and `local`, bit for bit.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

from shoal.base.errors import InputError, ShoalError
from shoal.checkpoints.store import Checkpoint
from shoal.launchers.actor_process import ActorOrder, serve_actor
from shoal.launchers.build import Life, build_trainer
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
CRASHES, CRASH_SPAN = 5, 60.0
"""An actor may die this often within so many seconds and is started again."""


@dataclass
class Link:
    """One actor's process, as the launcher holds it."""

    number: int
    life: Life
    process: BaseProcess
    control: ControlEnd
    deaths: list[float] = field(default_factory=list)
    """When it died, by this process's clock."""


class LocalLauncher:
    """Owns the shared memory and the processes of a run on one machine."""

    def __init__(self, program: Program, start: Checkpoint | None = None, *, logs: Path) -> None:
        self.mailboxes: dict[str, Mailbox] = {}
        self.trainers: dict[str, TrainerWorker] = {}
        self._boxes: dict[str, ShmMailbox] = {}
        self._rings: list[dict[str, ShmRing]] = [{} for _ in range(program.actors)]
        self._program, self._logs = program, logs
        for name, plan in program.policies.items():
            for own in self._rings:
                own[name] = ShmRing(plan.layout(program.actors), program.slots)
            box = self._boxes[name] = self.mailboxes[name] = ShmMailbox(plan.algorithm.flat.nbytes, program.slots)
            self.trainers[name] = build_trainer(program, name, [own[name] for own in self._rings], box, start)
        life = Life(start.version if start else 0)
        self._links = [Link(number, life, *self._start(number, life)) for number in range(program.actors)]

    def _start(self, number: int, life: Life) -> tuple[BaseProcess, ControlEnd]:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["shoal.launchers.actor_process"])
        here, there = context.Pipe()
        rings = {name: ring.handle for name, ring in self._rings[number].items()}
        mailboxes = {name: box.handle for name, box in self._boxes.items()}
        settings = self._program.experiment.model_dump()
        order = ActorOrder(os.getpid(), settings, number, rings, mailboxes, life, str(self._logs))
        process = context.Process(target=serve_actor, args=(order, there), name=f"actor-{number}", daemon=True)
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
                    if controller.reason is not None:  # else the next policy's trainer would be one version further
                        break
                self._watch(controller)
                if interrupts.caught:
                    controller.stop(f"interrupted by {interrupts.caught}")
            return interrupts.caught

    def _listen(self, controller: Controller) -> None:
        """Hand reports on; an actor that says it failed is treated as the dead one it will be in a moment."""
        for link in self._links:
            try:
                while (said := link.control.take()) is not None:
                    if not isinstance(said, str):
                        controller.receive(said)
            except InputError:
                raise
            except ShoalError as error:
                self._revive(link, str(error), controller)

    def _watch(self, controller: Controller) -> None:
        """See who died without a word."""
        for link in self._links:
            code = link.process.exitcode
            if code is not None:
                self._listen(controller)
                if link.process.exitcode is not None:  # it did not even say why
                    cause = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                    log = self._logs / f"{link.process.name}.log"
                    self._revive(link, f"{link.process.name} ended {cause}: see {log}", controller)

    def _revive(self, link: Link, cause: str, controller: Controller) -> None:
        """A new life for a dead actor: only its open fragment is lost. One that keeps dying ends the run with its first words."""
        now = time.monotonic()
        link.deaths = [*(death for death in link.deaths if now - death < CRASH_SPAN), now]
        if len(link.deaths) > CRASHES:
            raise ShoalError(f"{cause} ({len(link.deaths)} crashes in a row: mend that, then go on with --resume)")
        controller.restarted(link.process.name, cause)
        self._end(link)
        link.life = link.life._replace(incarnation=link.life.incarnation + 1)
        link.process, link.control = self._start(link.number, link.life)

    def close(self) -> None:
        """Stop the actors, kill those that do not, free the memory."""
        for link in self._links:
            link.control.order(STOP)
        for link in self._links:
            self._end(link)
        for own in self._rings:
            for ring in own.values():
                ring.close()
        for box in self._boxes.values():
            box.close()

    def _end(self, link: Link) -> None:
        link.process.join(PATIENCE)
        if link.process.exitcode is None:
            link.process.kill()
            link.process.join()
        link.process.close()
        link.control.close()


@contextmanager
def _without_main() -> Iterator[None]:
    """Start a process that does not import the user's script again: nothing in there is needed to act."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
