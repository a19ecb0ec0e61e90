"""The inline launcher: every worker in this one thread, polled in turn over in-memory streams.

Deterministic and easy to step through with a debugger: from `env.step` in the actor's poll to `algorithm.update` in the
trainer's, everything happens on one stack. It is what every other launcher is compared with.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from shoal.api.messages import Message
from shoal.api.orders import Order
from shoal.api.program import Program, RingStream, WorkerSpec
from shoal.api.worker import Heartbeat, Worker
from shoal.base.closing import close_all, time_limit
from shoal.base.errors import ShoalError
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.contents import to_bytes
from shoal.checkpoints.worker_state import BEFORE
from shoal.envs.kept import EnvShelf
from shoal.launchers.deadlock import Standing, flushes
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.launcher import Conductor, Snapshot
from shoal.launchers.life import first_life, older_versions, saves_state
from shoal.launchers.threads import ReplicaThreads
from shoal.monitoring.logs import LOG
from shoal.rollout.plans import Plans
from shoal.streams import names
from shoal.streams.gate import GateKeeper
from shoal.streams.sample import Account, account
from shoal.streams.stream_set import MemoryStreams
from shoal.workers.context import Context
from shoal.workers.replica_sync import sync_class
from shoal.workers.trainer import TrainerSpec, TrainerWorker

PAUSE = 0.05
"""Seconds between two looks at a paused run."""
CLOSING = 10.0
"""Seconds that environments have to close when a run is over."""
OPEN = 1 << 62
"""Updates that a trainer may make which this thread polls: it need not wait."""


class InlineLauncher:
    """Builds the workers of a program around in-memory streams, then polls them until the controller has a reason to stop."""

    def __init__(
        self, program: Program, start: Checkpoint | None = None, checkpoints: Path | None = None,
        heartbeat: Heartbeat | None = None, shelf: EnvShelf | None = None,
    ) -> None:  # fmt: skip
        self._program, self._streams = program, MemoryStreams(program)
        self._shelf = shelf
        self._heartbeat = heartbeat or Heartbeat()
        self._life = first_life(program, start)
        self.goes_on: bool | None = self._life.whole
        self.mailboxes = {name: self._streams.mailbox(names.version(name)) for name in program.learners}
        self._samples = [
            self._streams.ring(name)
            for name, stream in program.streams.items()
            if isinstance(stream, RingStream) and stream.counted
        ]
        sync = sync_class(program)
        speaking = [(p, rank) for p in program.learners for rank in range(1 if sync.in_step else program.trainers)]
        self._gates = {at: GateKeeper(self._streams.mailbox(names.gate(*at))) for at in speaking}
        self._drained: set[str] = set()
        for gate in self._gates.values():
            gate.open(OPEN)
        self._workers = self._build(sync.one_machine, checkpoints)
        self._polled = self._in_turn(threads=program.trainers > 1 and sync.in_step)
        self._answers: list[Message] = []
        self._interrupts = Interrupts()

    def _build(self, shared: bool, checkpoints: Path | None) -> dict[WorkerSpec, Worker]:
        """Trainers first, so that the version that everyone starts from is out. Replicas need parameters of their own each,
        unless they share one memory."""
        plans = [Plans(self._program)]
        plans += [plans[0] if shared else Plans(self._program) for _ in range(self._program.trainers - 1)]
        contexts = [
            Context(
                self._program,
                each,
                self._streams,
                self._life,
                self._heartbeat,
                checkpoints=checkpoints,
                shelf=self._shelf,
            )
            for each in plans
        ]
        specs = self._program.workers
        trainers = [spec for spec in specs if isinstance(spec, TrainerSpec)]
        built: dict[WorkerSpec, Worker] = {}
        with ExitStack() as stack:
            for spec in [*trainers, *(spec for spec in specs if spec not in trainers)]:
                rank = spec.rank if isinstance(spec, TrainerSpec) else 0
                built[spec] = stack.enter_context(closing(spec.build(contexts[rank])))
            stack.pop_all()  # only what was built before something failed
        return {spec: built[spec] for spec in sorted(specs, key=lambda spec: spec.rank_in_process)}

    def _in_turn(self, *, threads: bool) -> list[Worker]:
        """Policies in turn; the replicas of each at once where they wait for each other, otherwise one after the other."""
        polled: list[Worker] = []
        together: dict[str, list[TrainerWorker]] = {}
        for worker in self._workers.values():
            if isinstance(worker, TrainerWorker) and threads:
                together.setdefault(worker.policy, []).append(worker)
            else:
                polled.append(worker)
        ranks = {id(worker): spec.rank_in_process for spec, worker in self._workers.items()}
        later = [worker for worker in polled if ranks[id(worker)] > TrainerSpec.rank_in_process]
        earlier = [worker for worker in polled if worker not in later]
        return [*earlier, *map(ReplicaThreads, together.values()), *later]

    # ------------------------------------------------------------ the run

    def run(self, conductor: Conductor) -> str | None:
        """Poll until there is a reason to stop; the name of the signal that ended it, if one did."""
        controller = conductor.controller
        with self._interrupts as interrupts:
            while controller.reason is None:
                conductor.listen()
                controller.look()
                if interrupts.caught:
                    controller.stop(f"interrupted by {interrupts.caught}")
                elif controller.paused:
                    time.sleep(PAUSE)
                elif not self._sweep(conductor) and not self._flush(conductor):
                    raise ShoalError(f"deadlock: {self._who_waits()}")
            return interrupts.caught

    def _sweep(self, conductor: Conductor) -> bool:
        worked, controller = bool(self._answers), conductor.controller
        while self._answers:
            conductor.receive(self._answers.pop(0))
        for worker in self._polled:
            said = worker.poll(0.0)
            worked |= bool(said)
            for message in said:
                conductor.receive(message)
            if controller.reason is not None:  # else the next policy's trainer might be one version further
                break
            self._drain(conductor)
        return worked

    def _drain(self, conductor: Conductor) -> None:
        """A policy that is through with its stop rule learns no more, and holds up nobody who is not."""
        for policy, clock in conductor.controller.clocks.items():
            if clock.done and policy not in self._drained:
                self._drained.add(policy)
                for (name, _), gate in self._gates.items():
                    if name == policy:
                        gate.open(OPEN, drain=True)

    def _flush(self, conductor: Conductor) -> bool:
        """Nobody can go on: let fragments be posted that are not full, if that is what everyone waits for."""
        if len(self.mailboxes) < 2:
            return False
        due = flushes(self._program, self._look())
        for order in due:
            for worker in self._workers.values():
                for message in worker.handle(order):
                    conductor.receive(message)
        return bool(due)

    def _look(self) -> dict[str, Standing]:
        found = {}
        for policy, mailbox in self.mailboxes.items():
            rings = [self._streams.ring(names.sample(p, policy)) for p in range(self._program.producers)]
            start = self._life.starts[policy]
            posted, waiting = (start + ring.posted for ring in rings), (ring.posted - ring.freed for ring in rings)
            found[policy] = Standing(mailbox.latest(), tuple(posted), tuple(waiting))
        return found

    def _who_waits(self) -> str:
        lines = [f"{policy} is at version {s.version}, rounds {list(s.posted)}" for policy, s in self._look().items()]
        return "; ".join(["no worker can go on", *lines])

    def run_only(self, conductor: Conductor, kind: str, done: Callable[[], bool]) -> None:
        """Let the workers of one kind go on, and nobody else, until it is `done`; a signal ends it."""
        workers = [worker for spec, worker in self._workers.items() if spec.kind == kind]
        with self._interrupts as interrupts:
            while not (done() or interrupts.caught):
                conductor.controller.look()
                conductor.listen()
                for worker in workers:
                    for message in worker.poll(0.0):
                        conductor.receive(message)

    # ------------------------------------------------------------ what a run asks for

    def order(self, to: str, order: Order) -> None:
        """Obeyed at once; the answer is heard with the next poll."""
        for spec, worker in self._workers.items():
            if to in ("", spec.name, spec.kind):
                self._answers += worker.handle(order)

    def publish(self, stream: str, version: int, block: Any) -> None:
        """Write into a mailbox that the controller writes."""
        self._streams.mailbox(stream).publish(version, block)

    def quiet(self) -> bool:
        """Nothing else runs while this thread is here."""
        return True

    def save(self, round_: int) -> Snapshot:
        """What all workers hold. What trainers learned is taken as it is, without a copy through bytes."""
        whole, snapshot = saves_state(self._program), Snapshot()
        for spec, worker in self._workers.items():
            if isinstance(spec, TrainerSpec) and isinstance(worker, TrainerWorker) and spec.rank == 0:
                snapshot.learned |= {f"{spec.policy}/{name}": tensor for name, tensor in worker.state_dict().items()}
            if whole:
                snapshot.states[spec.name] = to_bytes(worker.state(round_))
        if whole:
            versions = {name: mailbox.latest() for name, mailbox in self.mailboxes.items()}
            snapshot.states[BEFORE] = older_versions(self._program, self.mailboxes, versions)
        return snapshot

    def accounts(self) -> Account:
        """What became of all rows."""
        return sum(map(account, self._samples[1:]), account(self._samples[0]))

    def workers(self) -> list[dict[str, Any]]:
        """Who works, for the panel."""
        facts = {"pid": os.getpid(), "state": "alive", "restarts": 0}
        return [{"name": spec.name, "kind": spec.kind, **facts} for spec in self._workers]

    def close(self) -> None:
        """Free what the workers hold. What hangs there is left: the run is over and saved."""
        try:
            with time_limit(CLOSING, "closing the environments"):
                close_all(self._polled)
        except TimeoutError as error:
            LOG.warning("%s: they are left open", error)
