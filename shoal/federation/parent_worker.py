"""The parent worker: in the place of the trainer, in a run without actors.

Consumes contributions of children; produces versions, and answers to children; waits for a quorum of them, and after each mix for
its gate. Every version is on disk before a child hears of it, so that whoever is killed loses no round that was taken. Takes the
orders Save and Stop.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors.torch
import torch

from shoal.api.messages import Message, Note, Numbers, Saved, Shown, Updated
from shoal.api.metric import Last, Mean, Metric, Total, merge_into
from shoal.api.orders import Order, Save, Stop
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import MailboxShape, Port, Program, resolved
from shoal.api.worker import Worker
from shoal.base.files import read_small, write_atomic
from shoal.base.tree import Tree
from shoal.checkpoints.contents import from_tensors, to_bytes, to_tensors
from shoal.federation.acceptance import Examiner
from shoal.federation.children import Pending
from shoal.federation.frames import FrameError
from shoal.federation.global_model import GlobalModel, Mixed
from shoal.federation.hub import Came, Hub, Joined, Knocked, Left, Refused
from shoal.federation.layout import Layout, make_offer, one_learner
from shoal.federation.network import NetworkThread, listening
from shoal.federation.plan import Plan
from shoal.rollout.plans import load_policy
from shoal.streams import gate, names
from shoal.streams.gate import Gate
from shoal.streams.primitives import Mailbox
from shoal.workers.context import Context
from shoal.workers.parent_link import set_statistics, set_trained, statistics, trained
from shoal.workers.replica_sync import version_shape
from shoal.workers.trainer import TrainerSpec

KEPT = "parent.safetensors"
"""The newest version and all that belongs to it, in the run folder."""
SHOWING = 1.0
"""Seconds between two looks at who is there, for people."""


class ParentSpec(TrainerSpec):
    """To launchers it is a trainer: it makes the versions of a policy, has a gate, and says what a checkpoint holds."""

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        return [cls(name="parent", policy=one_learner(program), rank=0)]

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        shape = MailboxShape(gate.NBYTES)
        return [
            Port(names.version(self.policy), "write", version_shape(plans[self.policy], program)),
            Port(names.gate(self.policy, self.rank), "read", shape, from_controller=True),
        ]

    def build(self, context: Context) -> ParentWorker:  # type: ignore[override]
        program, streams, life = context.program, context.streams, context.life
        algorithm = context.plans[self.policy].algorithm
        if life.start is not None:
            load_policy(algorithm, life.start.tensors, self.policy)
        config, layout, plan = resolved(program.experiment.federation), Layout.of(algorithm), Plan.of(context)
        model = GlobalModel(config, layout, torch.cat(trained(algorithm)).numpy(), statistics(algorithm))
        model.version, model.steps = life.starts[self.policy], life.steps.get(self.policy, 0)
        assert context.checkpoints is not None, "there is a plan"
        worker = ParentWorker(
            self.name, self.policy, context, model, streams.mailbox(names.version(self.policy)),
            Gate(streams.mailbox(names.gate(self.policy, self.rank)), streams.waiter) if context.supervised else None,
            context.checkpoints.with_name(KEPT), self._examiner(context),
        )  # fmt: skip
        worker.start(context.state_of(self))
        worker.open(plan, make_offer(plan.recipe, plan.fingerprint, layout, config), layout)
        return worker

    def _examiner(self, context: Context) -> Examiner | None:
        accept = resolved(context.program.experiment.federation).accept
        if accept is None:
            return None
        return Examiner(context.program, self.policy, accept, context.heartbeat.beat)


class ParentWorker(Worker):
    """Mixes."""

    def __init__(
        self, name: str, policy: str, context: Context, model: GlobalModel, mailbox: Mailbox, gate: Gate | None,
        kept: Path, examiner: Examiner | None,
    ) -> None:  # fmt: skip
        self.name, self.policy = name, policy
        self._algorithm = context.plans[policy].algorithm
        self._model, self._mailbox, self._gate, self._kept, self._examiner = model, mailbox, gate, kept, examiner
        self._heartbeat = context.heartbeat
        self._network = NetworkThread("hub", context.streams.wake)
        self._hub: Hub | None = None
        self._updates = 0
        self._examined: Pending | None = None
        self._metrics: dict[str, Metric] = {}
        self._shown = 0.0

    def start(self, state: Tree | None) -> None:
        """Go on from the newest that is known: what was kept after each version, or the checkpoint. Before `open`."""
        with contextlib.suppress(FileNotFoundError):  # a run that is new
            kept = from_tensors(to_tensors(read_small(self._kept)))
            state = kept if state is None or int(kept["version"]) >= int(state["version"]) else state
        if state is not None:
            self._model.restore(state)
            self._use()
        if self._model.version > self._mailbox.latest():
            self._mailbox.publish(self._model.version, self._algorithm.flat.block.numpy())

    def open(self, plan: Plan, offer: Any, layout: Layout) -> None:
        """Let children come."""
        self._hub = Hub(self._network, plan.identity, offer, layout, self._unwanted)
        if plan.listen is not None:
            self._hub.listen(listening(plan.listen))
        if plan.call:
            self._hub.call(plan.call)

    def _unwanted(self, child: str) -> str | None:
        return "it had to go: its contributions were no good" if self._model.strikes.out(child) else None

    @property
    def _there(self) -> Hub:
        assert self._hub is not None, "opened when built"
        return self._hub

    # ------------------------------------------------------------ the loop

    def poll(self, timeout: float) -> list[Message]:
        said: list[Message] = []
        for event in self._network.take():
            said += self._on(event)
        self._turn_away()
        if self._gate is None or self._gate.passed(self._updates, 0.0):
            said += self._go_on()
        if time.monotonic() - self._shown >= SHOWING:
            self._shown = time.monotonic()
            rows = [child.row(self._model.strikes.of(name)) for name, child in self._model.children.items()]
            said.append(Shown("children", rows))
        return said

    def _on(self, event: object) -> list[Message]:
        match event:
            case Joined(child, number, session, where):
                self._there.send(child, self._model.join(child, number, session, where))
                return [Note(f"{child} joined from {where}")]
            case Left(child, number, reason, fault):
                known = self._model.leave(child, number)
                strike = self._strike(child, reason) if fault else []
                return [*([Note(f"{child} left: {reason}")] if known else []), *strike]
            case Refused(who, reason):
                return [Note(f"{who} was refused: {reason}")]
            case Knocked(said):
                return [Note(f"strangers were refused: {said}")]
            case Came(child, number) if self._model.children[child].number == number:
                return self._take(event)
        return []

    def _take(self, came: Came) -> list[Message]:
        self._count({"federation/nbytes_up": Total(came.nbytes), "federation/error": Mean(came.header.error)})
        self._count({"federation/seconds": Mean(came.header.seconds)})
        if came.header.score is not None:
            self._count({"federation/return": Mean(came.header.score, max(1, came.header.episodes))})
        try:
            self._model.take(came.child, came.header, came.blocks, came.nbytes, time.monotonic())
        except FrameError as error:
            said = self._strike(came.child, str(error))
            if not self._model.strikes.out(came.child):
                self._send(came.child, "set aside")
            return said
        return [Numbers()]

    def _strike(self, child: str, reason: str, *, malformed: bool = True) -> list[Message]:
        """Against a child; the last one ends its part in the run."""
        strikes = self._model.strikes
        out = strikes.add(child) if malformed else strikes.set_aside(child, self._model.version)
        self._count({"federation/strikes": Total(1)})
        if out:
            self._model.forget(child)
            self._there.dismiss(child, f"it had to go: {reason}", over=True)
        count = f"strikes: {strikes.of(child)}"
        return [Note(f"{child}: {reason}: {count}{', and it had to go' if out else ''}")]

    # ------------------------------------------------------------ versions

    def _go_on(self) -> list[Message]:
        if self._examiner is not None and (said := self._examine(self._examiner)):
            return said
        ready = self._model.ready(time.monotonic())
        if not ready:
            return []
        try:
            mixed = self._model.mix(ready)
        except FrameError as error:
            return self._spoiled(ready, str(error))
        return [self._publish(mixed)]

    def _examine(self, examiner: Examiner) -> list[Message]:
        """One candidate at a time, a few steps at a time."""
        model = self._model
        if self._examined is None:
            waiting = [pending for pending in model.pending if not pending.examined]
            if not waiting:
                return []
            self._examined = waiting[0]
            present = (model.weights, model.statistics)
            examiner.examine(model.version, present, (waiting[0].weights, waiting[0].statistics))
        self._heartbeat.beat()
        good = examiner.step()
        self._heartbeat.rest()
        if good is None:
            return [Numbers()]
        pending, self._examined = self._examined, None
        if pending not in model.pending:  # its child had to go meanwhile
            return [Numbers()]
        model.examined(pending, examiner.score, worse=not good)
        if good:
            return [Numbers()]
        reason = f"round {pending.round} scores significantly worse than version {model.version}"
        return self._strike(pending.child, reason, malformed=False)

    def _turn_away(self) -> None:
        """Who gave something worse goes back to the present weights, once these are the next."""
        for pending in self._model.turned_away(time.monotonic()):
            self._count({"federation/set_aside": Total(1)})
            self._set_aside(pending)

    def _set_aside(self, pending: Pending) -> None:
        parcel = self._model.set_aside(pending)
        if parcel is not None and not self._model.strikes.out(pending.child):
            self._there.send(pending.child, parcel)

    def _spoiled(self, ready: list[Pending], reason: str) -> list[Message]:
        """Each was finite, and their mix is not: nobody knows whose fault it is, so all count for one."""
        said: list[Message] = []
        for pending in ready:
            said += self._strike(pending.child, reason)
            if pending in self._model.pending:
                self._set_aside(pending)
        return said

    def _publish(self, mixed: Mixed) -> Updated:
        """On disk first, then to the children, then to the run."""
        self._use()
        write_atomic(self._kept, to_bytes(self._model.state()))
        self._mailbox.publish(mixed.version, self._algorithm.flat.block.numpy())
        for child in mixed.children:
            self._model.strikes.good(child)
            if self._model.children[child].connected:
                self._send(child, "mixed")
        self._updates += 1
        self._count({
            "federation/children": Last(len(self._model.connected)), "federation/mixed": Total(len(mixed.children)),
            "federation/staleness": Mean(mixed.staleness, len(mixed.children)),
        })  # fmt: skip
        metrics, self._metrics = self._metrics, {}
        return Updated(self.policy, mixed.version, 0, self._model.steps, metrics)

    def _use(self) -> None:
        set_trained(self._algorithm, torch.from_numpy(self._model.weights))
        set_statistics(self._algorithm, np.asarray(self._model.statistics))

    def _send(self, child: str, verdict: str) -> None:
        if self._model.children[child].connected:
            parcel = self._model.answer(child, verdict)
            self._count({"federation/nbytes_down": Total(sum(map(len, parcel.blocks)))})
            self._there.send(child, parcel)

    def _count(self, metrics: dict[str, Metric]) -> None:
        merge_into(self._metrics, metrics)

    # ------------------------------------------------------------ orders and state

    def handle(self, order: Order) -> list[Message]:
        match order:
            case Save(request, round_):
                owned = {name: tensor.detach().clone().contiguous() for name, tensor in self.state_dict().items()}
                return [Saved(self.name, request, to_bytes(self.state(round_)), safetensors.torch.save(owned))]
            case Stop(reason):
                over = reason.startswith("stop.")
                self._there.close(reason or "the parent has stopped", over=over)
        return []

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All of the algorithm; its optimisers never step here."""
        return self._algorithm.state_dict()

    def state(self, round_: int) -> Tree | None:
        return self._model.state()

    def restore(self, state: Tree) -> None:
        self._model.restore(state)

    def close(self) -> None:
        self._network.stop()
        if self._examiner is not None:
            self._examiner.close()
