"""The trainer worker.

Consumes rounds of a BatchSource; produces parameter versions and metrics; waits for a whole round, for the other replicas, and
after each update for its gate. Slots are freed after the version trained on them is published: that is what bounds the lag. Takes
the orders Save, Reconfigure and LoadWeights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from shoal.algorithms.undo import Undo
from shoal.api.algorithm import Algorithm, NonFiniteError, Update
from shoal.api.messages import Message, Note, Numbers, Reconfigured, Saved, Updated
from shoal.api.metric import Metric, Total, merge_into
from shoal.api.orders import LoadWeights, Order, Reconfigure, Save
from shoal.api.policy_spec import PolicyPlan, PolicySpec
from shoal.api.program import MailboxShape, Port, Program, RingShape, WorkerSpec
from shoal.api.worker import Worker
from shoal.base.device import find_device
from shoal.base.errors import InputError, ShoalError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.threads import prepare_to_learn, torch_threads
from shoal.base.transfer import Road
from shoal.base.tree import Tree
from shoal.checkpoints.contents import to_bytes
from shoal.checkpoints.worker_state import saves_replay, versions_before
from shoal.monitoring.shares import Shares
from shoal.rollout.plans import load_ordered, load_policy
from shoal.streams import batch, gate, names
from shoal.streams.batch import BatchReader
from shoal.streams.gate import Gate
from shoal.streams.past import Archive
from shoal.streams.sample import SampleReader
from shoal.workers.archives import archive_ports, make_archives
from shoal.workers.context import Context
from shoal.workers.replay_shards import make_replay, part_of, replay_of, shards_of
from shoal.workers.replica_sync import ReplicaSync, make_sync, sync_class
from shoal.workers.shadow import Shadow, shadow_nbytes
from shoal.workers.sources import BatchSource, BufferSource, FreshSource, ReplaySource, Round
from shoal.workers.staging import Staging

BAD_IN_A_ROW = 10
"""Dropped batches, one after the other, that end the run."""


class TrainerSpec(WorkerSpec):
    """One replica of the trainer of one policy."""

    kind: ClassVar[str] = "trainer"
    events: ClassVar[tuple[str, ...]] = ("update",)
    rank_in_process: ClassVar[int] = 40
    leads: ClassVar[int] = 1
    keeps: ClassVar[str] = "replay"

    policy: str
    """That it trains."""
    rank: int
    """Which of the replicas."""

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        return [
            cls(name=f"trainer-{policy}-{rank}", policy=policy, rank=rank)
            for rank in range(program.trainers)
            for policy in program.learners
        ]

    def process(self, program: Program) -> str:
        return names.trainer_process(self.rank, program.trainers)

    def device(self, program: Program) -> str:
        return program.experiment.placement.device

    def threads(self, program: Program) -> int:
        return program.threads

    def fate(self, program: Program) -> str:
        return "trainers" if sync_class(program).in_step else ""

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        plan = plans[self.policy]
        ports = sync_class(program).ports(plan, program, self.rank)
        if self.rank == 0 or not sync_class(program).in_step:
            shape = MailboxShape(gate.NBYTES)
            ports.append(Port(names.gate(self.policy, self.rank), "read", shape, from_controller=True))
        shards = shards_of(program, plan)
        for shard in range(shards):
            returned = batch.priority_layout(len(part_of(plan, shards, shard).lanes))
            ports.append(Port(names.batch(shard, self.policy), "read"))
            ports.append(Port(names.priority(shard, self.policy), "write", RingShape(returned, batch.RETURNS)))
        if not shards:
            ports += [Port(names.sample(p, self.policy), "read") for p in program.producers_of(self.rank)]
        if self._has_shadow(program):
            shadow, shape = names.shadow(self.policy, self.rank), MailboxShape(shadow_nbytes(plan.algorithm), 1)
            ports += [Port(shadow, "write", shape), Port(shadow, "read")]  # its next life reads it
        return [*ports, *archive_ports(program, plan, self.rank)]

    def build(self, context: Context) -> TrainerWorker:
        """A trainer, or one replica of it, with its first version published."""
        program, streams, life = context.program, context.streams, context.life
        plan = context.plans[self.policy]
        plan.algorithm.to(find_device(self.device(program), self.rank, key="placement.device"))
        plan.algorithm.compute_by(context.arithmetic(plan.algorithm.device))
        sync = make_sync(program, plan, self.rank, context)
        sync.adopt(plan.algorithm)
        trainer = TrainerWorker(
            self.name, plan.algorithm, sync, self._source(context, plan), max_lag=program.max_lag,
            gate=Gate(streams.mailbox(names.gate(self.policy, self.rank)), streams.waiter) if sync.speaks else None,
            archives=make_archives(context, self.policy, self.rank), shadow=self._make_shadow(context, plan),
            faults=context.faults_of(self), spec=plan.spec, threads=program.threads,
        )  # fmt: skip
        prepare_to_learn(program.threads)
        if life.start is not None:
            load_policy(plan.algorithm, life.start.tensors, self.policy)
            trainer.version = life.starts[self.policy]
            if life.whole and not life.incarnation:
                trainer.publish_older(versions_before(life.start, self.policy))
            if (kept := context.state_of(self)) is not None:
                trainer.restore(kept)
        if life.incarnation:
            trainer.version = life.versions[self.policy]
            trainer.recover(life.weights.get(self.policy))
        trainer.steps = life.steps.get(self.policy, 0)
        trainer.start()
        return trainer

    def _source(self, context: Context, plan: PolicyPlan) -> BatchSource:
        """Where its batches come from. A trainer that starts anew begins with an empty buffer."""
        program, streams, life = context.program, context.streams, context.life
        replay = plan.algorithm.needs.replay
        if replay is not None and context.alone:
            replay = replace(replay, warmup=1)  # what is measured is learning, not the wait for it
        if shards_of(program, plan):
            return self._buffers(context, plan)
        rings = [streams.ring(names.sample(producer, self.policy)) for producer in program.producers_of(self.rank)]
        size = len(rings) * program.fewest_actors // program.actors
        exact = program.exact or not sync_class(program).in_step
        reader = SampleReader(rings, exact=exact, waiter=streams.waiter, size=size)
        if life.incarnation:
            reader.recover(life.rounds[self.policy])
        if replay is None:
            return FreshSource(reader)
        buffer, saved = make_replay(program, plan, self.rank, program.trainers), saves_replay(program, plan.spec)
        return ReplaySource(reader, replay, buffer, program.trainers, saved=saved)

    def _buffers(self, context: Context, plan: PolicyPlan) -> BufferSource:
        """The trainer's end of its buffer workers. In one thread nobody dies, so there all are waited for."""
        streams, shards = context.streams, range(context.program.buffers)
        reader = BatchReader(
            [streams.ring(names.batch(shard, self.policy)) for shard in shards],
            [streams.ring(names.priority(shard, self.policy)) for shard in shards],
            waiter=streams.waiter, patience=batch.PATIENCE if context.supervised else math.inf,
        )  # fmt: skip
        if context.life.incarnation:
            reader.recover()
        return BufferSource(replay_of(plan), reader)

    def _make_shadow(self, context: Context, plan: PolicyPlan) -> Shadow | None:
        """Of who may have to begin again, and knows more than what the replicas share."""
        if not (context.supervised and self._has_shadow(context.program)):
            return None
        return Shadow(plan.algorithm, context.streams.mailbox(names.shadow(self.policy, self.rank)))

    def _has_shadow(self, program: Program) -> bool:
        sync = sync_class(program)
        return not sync.one_machine and (self.rank == 0 or not sync.in_step)


class TrainerWorker(Worker):
    """Trains one policy, alone or as one replica of several."""

    def __init__(
        self, name: str, algorithm: Algorithm, sync: ReplicaSync, source: BatchSource, *, max_lag: int = 0,
        gate: Gate | None = None, archives: Mapping[str, Archive] | None = None, shadow: Shadow | None = None,
        faults: Faults = NO_FAULTS, spec: PolicySpec | None = None, threads: int = 1,
    ) -> None:  # fmt: skip
        self.name, self.policy, self.algorithm, self._spec, self.threads = name, sync.policy, algorithm, spec, threads
        self._sync, self._source, self._mailbox = sync, source, sync.mailbox()
        self._max_lag, self._gate, self._faults = max_lag, gate, faults
        self._archives, self._shadow = archives or {}, shadow
        self._recovered = ""
        """What is to be said of an earlier life."""
        # where others write into the same memory, what they did cannot be told from what is taken back
        self._undo = None if sync.one_machine else Undo(algorithm)
        self._undo_ready = False
        self._road = Road(algorithm.device)
        self._shares = Shares("trainer")
        self.version, self.steps = 0, 0
        self._updates = 0
        self._bad = 0
        self._learned: dict[str, Metric] = {}

    def start(self) -> None:
        """Publish the version that training starts from. If a life before did, and died: go on from what others act with."""
        flat, newest = self.algorithm.flat, self._mailbox.latest()
        if self._sync.publishes_alone and newest >= 0:
            self.version = newest
        if self.version == newest and not self._sync.one_machine:
            flat.read(lambda block: self._mailbox.read(newest, block))
        elif (self._sync.rank == 0 or self._sync.publishes_alone) and self.version > newest:
            self._mailbox.publish(self.version, flat.version())
        self._keep(self.version, flat.version())

    def recover(self, weights: bytes | None) -> None:
        """A life after a death: go on from what the last one left in memory, with the parameters that are out. Before `start`.

        `weights`: those parameters, where this machine has none.
        """
        kept = self._shadow.restore() if self._shadow is not None else None
        newest, flat = self._mailbox.latest(), self.algorithm.flat
        if self._shadow is not None and newest >= 0:
            flat.read(lambda block: self._mailbox.read(newest, block))
        elif self._shadow is not None and weights is not None:
            flat.load(torch.frombuffer(bytearray(weights), dtype=torch.uint8))
        self._sync.recover(self.algorithm, kept=kept is not None)
        if self._sync.speaks:
            known = "its optimiser begins anew" if kept is None else f"its optimiser is that of version {kept:,}"
            self._recovered = "parameters and optimiser are those that all share" if self._sync.one_machine else known

    @property
    def _oldest(self) -> int:
        return self.version - self._max_lag

    def ready(self) -> bool:
        """A round is there."""
        return self._source.ready(self._oldest)

    def poll(self, timeout: float) -> list[Message]:
        if self._recovered:
            said, self._recovered = f"{self.name} goes on at version {self.version:,}: {self._recovered}", ""
            return [Note(said + self._source.lost())]
        if self._gate is not None and not self._gate.passed(self._updates, timeout):
            return []
        self._shares.switch("waited_input")
        if not self._sync.may_begin(self._updates, self.ready):
            return []
        round_ = self._source.take(timeout, self.version, self._oldest)
        if round_ is None:
            return []
        if self._sync.begin(self.algorithm):
            self._undo_ready = False
        self._shares.switch("worked")
        self._faults.at("update", self._updates + 1)
        with torch_threads(self.threads):  # who acts in this process keeps to one: its bits are those of any other
            return [self._learn(round_)]

    def _learn(self, round_: Round) -> Message:
        began = time.perf_counter()
        outcome = self._agree(round_)
        metrics, undone = self._train(round_) if outcome == "trained" else ({}, None)
        outcome = "trained" if outcome == "empty" else outcome
        self._count_bad(undone or (round_.problem if outcome == "not_finite" else None))
        merge_into(self._learned, {**metrics, "time/train": Total(time.perf_counter() - began)})
        if round_.ends_version or undone:
            return self._publish_round(round_, outcome, undone=undone is not None)
        self._shares.switch("waited_input")
        return Numbers()

    def _agree(self, round_: Round) -> str:
        """What becomes of a round. Replicas in step count the steps of all, and drop a round together if one of them has to."""
        sync, learner = self._sync, self._sync.learner
        drain = self._gate is not None and self._gate.drain
        words = torch.tensor([round_.steps, round_.empty, round_.problem is not None, drain], dtype=torch.float64)
        steps, empty, bad, drained = learner.mean(words).tolist()
        if drained:
            return "surplus"
        self.steps += round(steps * sync.of) if sync.in_step else round_.steps
        learner.steps = self.steps if sync.in_step else self.steps * sync.of
        if bad:
            round_.problem = round_.problem or "a replica's batch is not finite"
            return "not_finite"
        return "empty" if empty == 1 else "trained"

    def _train(self, round_: Round) -> tuple[dict[str, Metric], str | None]:
        """Learn from the batches of a round; if one of them cannot be learned from, take back what was, and say why."""
        metrics, learner = dict[str, Metric](), self._sync.learner
        if self._undo is not None and not self._undo_ready:  # a version may be made of several rounds
            self._undo.note()
            self._undo_ready = True
        try:
            batches = self._source.batches(round_, self.version, learner)
            staging = Staging(batches, self._road, ahead=self._source.draws_ahead)
            while (staged := staging.take()) is not None:
                update = self.algorithm.update(staged.there, learner)
                staging.send_next()
                update = learner.collect(update)
                merge_into(metrics, update.metrics)
                self._source.learned(staged.here, update)
        except NonFiniteError as error:
            if self._undo is not None:
                self._undo.back()
            with suppress(NonFiniteError):  # whatever else went wrong on a device belongs to this round
                learner.collect(Update())
            return metrics, str(error)
        return metrics, None

    def _count_bad(self, problem: str | None) -> None:
        self._bad = self._bad + 1 if problem else 0
        if self._bad >= BAD_IN_A_ROW:
            raise ShoalError(
                f"{self.name}: {self._bad} batches in a row were not finite, the last: {problem}; "
                "try `shoal check-env` on the environment, or a smaller algorithm.lr"
            )

    def _publish_round(self, round_: Round, outcome: str, *, undone: bool) -> Updated:
        """In step all replicas count alike, and the first publishes; otherwise the versions of all are counted together."""
        sync = self._sync
        if outcome == "trained" and not undone:
            sync.updated(self.algorithm, self._updates + 1)
        version = self.version + 1 if sync.in_step else self._mailbox.latest() + 1
        if sync.speaks:
            block = self.algorithm.flat.version()
            self._keep(version, block)
            self._mailbox.publish(version, block)
        self.version = version if sync.in_step else self._mailbox.latest()
        own = self._source.finish(round_, outcome, undone=undone)
        self._updates += 1
        self._undo_ready = False
        if self._shadow is not None and self._sync.speaks:
            self._shadow.keep(self.version)
        self._shares.switch("waited_input" if self._gate is None else "waited_slot")
        metrics, self._learned = {**self._learned, **own, **self._shares.take()}, {}
        return Updated(self.policy, self.version, sync.rank, self.steps, metrics, trained=outcome != "surplus")

    def _keep(self, version: int, block: np.ndarray) -> None:
        for archive in self._archives.values():
            archive.keep(version, block)

    # ------------------------------------------------------------ orders

    def handle(self, order: Order) -> list[Message]:
        match order:
            case Save(request, round_):
                return self._save(request, round_)
            case Reconfigure(policy, changes) if policy == self.policy:
                return self._reconfigure(changes)
            case LoadWeights(policy) if policy == self.policy:
                load_ordered(self.algorithm, order, self._spec)
                self._undo_ready = False
        return []

    def _reconfigure(self, changes: dict[str, Any]) -> list[Message]:
        """From the next update on. What cannot be is refused, and the run goes on as it was."""
        try:
            values = self.algorithm.reconfigure(changes)
        except InputError as error:
            return [Note(f"{self.policy} is not reconfigured: {error}")] if self._sync.rank == 0 else []
        return [Reconfigured(self.policy, values)] if self._sync.rank == 0 else []

    def _save(self, request: int, round_: int) -> list[Message]:
        """What is saved is a version: a round that is under way becomes one."""
        said: list[Message] = []
        if (under_way := self._source.open) is not None:
            said.append(self._publish_round(under_way, "trained", undone=False))
        learned = b""
        if self._sync.rank == 0:
            owned = {
                name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in self.state_dict().items()
            }
            learned = safetensors.torch.save(owned)
        return [*said, Saved(self.name, request, to_bytes(self.state(round_)), learned)]

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Tensor]:
        """All of the algorithm."""
        return self.algorithm.state_dict()

    def state(self, round_: int) -> Tree | None:
        """What it keeps for replay, and the earlier versions that opponents play as."""
        archives = {name: archive.kept(self.algorithm.flat.nbytes) for name, archive in self._archives.items()}
        replay = self._source.state()
        return None if replay is None and not archives else {"replay": replay, "archives": archives}

    def restore(self, state: Tree) -> None:
        if "archives" not in state:  # as checkpoints had it before there were any
            state = {"replay": state, "archives": {}}
        if state["replay"] is not None:
            self._source.restore(state["replay"])
        for name, kept in state["archives"].items():
            if name in self._archives:
                self._archives[name].restore(kept)

    def publish_older(self, versions: dict[int, np.ndarray]) -> None:
        """Versions before its own, oldest first, that somebody may still act with. Before `start`."""
        for version, block in versions.items():
            if self._sync.rank == 0 and version > self._mailbox.latest():
                self._mailbox.publish(version, block)
