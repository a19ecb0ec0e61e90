"""The inline launcher: every worker in this one thread, polled in turn over in-memory streams.

Deterministic and easy to step through with a debugger: from `env.step` in the actor's poll to `algorithm.update` in the
trainer's, everything happens on one stack. It is what every other launcher is compared with.
"""

from __future__ import annotations

from shoal.api.worker import Worker
from shoal.base.errors import ShoalError
from shoal.checkpoints.store import Checkpoint
from shoal.launchers.build import Life, build_actor, build_trainer
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.program import Program
from shoal.streams.primitives import Mailbox, Ring
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing
from shoal.workers.controller import Controller
from shoal.workers.trainer import TrainerWorker


class InlineLauncher:
    """Builds the workers of a program around in-memory streams, then polls them until the controller has a reason to stop."""

    def __init__(self, program: Program, start: Checkpoint | None = None) -> None:
        self.mailboxes: dict[str, Mailbox] = {}
        self.trainers: dict[str, TrainerWorker] = {}
        rings: list[dict[str, Ring]] = [{} for _ in range(program.actors)]
        for name, plan in program.policies.items():
            for own in rings:
                own[name] = MemoryRing(plan.layout(program.actors), program.slots)
            mailbox = self.mailboxes[name] = MemoryMailbox(plan.algorithm.flat.nbytes, program.slots)
            self.trainers[name] = build_trainer(program, name, [own[name] for own in rings], mailbox, start)
        life = Life(start.version if start else 0)
        actors = [build_actor(program, i, own, self.mailboxes, life) for i, own in enumerate(rings)]
        self._workers: list[Worker] = [*actors, *self.trainers.values()]

    def run(self, controller: Controller) -> str | None:
        """Poll until there is a reason to stop; the name of the signal that ended it, if one did."""
        with Interrupts() as interrupts:
            while controller.reason is None:
                worked = False
                for worker in self._workers:
                    report = worker.poll(0.0)
                    worked |= report.worked
                    controller.receive(report)
                    if controller.reason is not None:  # else the next policy's trainer might be one version further
                        break
                if interrupts.caught:
                    controller.stop(f"interrupted by {interrupts.caught}")
                elif not worked:
                    raise ShoalError("no worker can go on: a worker waits for something that nobody will give")
            return interrupts.caught

    def close(self) -> None:
        """Free what the workers hold."""
        for worker in self._workers:
            worker.close()
