"""The buffer worker.

Consumes fragments of its share of the actors, and priorities of what was learned from; produces parts of batches, sampled straight
into the slots that the trainer learns from; waits for fragments, for room, and where its rate says so for the other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import torch

from shoal.api.messages import Message, Numbers
from shoal.api.metric import Metric, Total
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Port, Program, RingShape, WorkerSpec
from shoal.api.worker import Worker
from shoal.base.errors import ShoalError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.tree import Tree
from shoal.buffers.rate import Rate
from shoal.buffers.sequences import SequenceReplay
from shoal.checkpoints.worker_state import saves_replay
from shoal.monitoring.shares import Shares
from shoal.streams import batch, names
from shoal.streams.batch import PartWriter
from shoal.streams.primitives import Waiter
from shoal.streams.sample import SampleReader
from shoal.workers.batch import find_problem
from shoal.workers.context import Context
from shoal.workers.replay_shards import make_rate, make_replay, part_of, shard_of

BAD_IN_A_ROW = 10
"""Dropped fragments, one after the other, that end the run."""
LIFE = 1 << 40
"""Keys of one life: those of an earlier one name nothing."""


class BufferSpec(WorkerSpec):
    """One of the buffer workers of a policy that replays."""

    kind: ClassVar[str] = "buffer"
    events: ClassVar[tuple[str, ...]] = ("insert",)
    rank_in_process: ClassVar[int] = 30
    keeps: ClassVar[str] = "replay"

    policy: str
    """Whose experience it keeps."""
    shard: int
    """Which of that policy's buffer workers."""

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        replaying = [policy for policy in program.learners if program.policies[policy].facts.replays]
        shards = range(program.buffers)
        return [cls(name=f"buffer-{p}-{s}", policy=p, shard=s) for p in replaying for s in shards]

    def _producers(self, program: Program) -> list[int]:
        return [producer for producer in range(program.producers) if shard_of(program, producer) == self.shard]

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        part = batch.part_layout(part_of(plans[self.policy], program.buffers, self.shard))
        samples = [Port(names.sample(producer, self.policy), "read") for producer in self._producers(program)]
        return [
            *samples,
            Port(names.batch(self.shard, self.policy), "write", RingShape(part, batch.AHEAD)),
            Port(names.priority(self.shard, self.policy), "read"),
        ]

    def build(self, context: Context) -> BufferWorker:
        """Each life begins empty."""
        program, streams, life = context.program, context.streams, context.life
        plan = context.plans[self.policy]
        buffer = make_replay(program, plan, self.shard, program.buffers, life=(life.incarnation, life.version))
        rings = [streams.ring(names.sample(producer, self.policy)) for producer in self._producers(program)]
        parts, priorities = names.batch(self.shard, self.policy), names.priority(self.shard, self.policy)
        worker = BufferWorker(
            self.name, buffer, make_rate(program, plan), SampleReader(rings, exact=False, size=1),
            PartWriter(streams.ring(parts), streams.ring(priorities)), streams.waiter, life=life.incarnation,
            saved=saves_replay(program, plan.spec), faults=context.faults_of(self),
        )  # fmt: skip
        if (kept := context.state_of(self)) is not None:
            worker.restore(kept)
        return worker


class BufferWorker(Worker):
    """One shard of a policy's replay. `life`: how often it died before; each begins empty."""

    def __init__(
        self, name: str, buffer: SequenceReplay, rate: Rate, samples: SampleReader, parts: PartWriter, waiter: Waiter, *,
        life: int = 0, saved: bool = False, faults: Faults = NO_FAULTS,
    ) -> None:  # fmt: skip
        self._saved = saved
        self.name, self.buffer, self.rate = name, buffer, rate
        self._samples, self._parts, self._waiter, self._faults = samples, parts, waiter, faults
        self._first_key = life * LIFE
        self._shares = Shares("buffer")
        self._rows = self._steps = 0
        self._taken = self._bad = 0
        self._metrics: dict[str, Metric] = {}
        self._told: dict[str, float] = {}
        if life:
            samples.recover(0)
            parts.recover()

    def state(self, round_: int) -> Tree | None:
        """What it keeps, and how far it is."""
        if not self._saved:
            return None
        return {"buffer": self.buffer.state_dict(), "rows": self.rate.rows, "draws": self.rate.draws}

    def restore(self, state: Tree) -> None:
        self.buffer.load_state_dict(state["buffer"])
        self.rate.rows, self.rate.draws = state["rows"], state["draws"]

    def poll(self, timeout: float) -> list[Message]:
        self._metrics = {}
        if not self._waiter.wait_until(self._work, timeout):
            return []
        return [Numbers({**self._metrics, **self._shares.take()})]

    def _work(self) -> bool:
        """Whatever can be done now; whether there was anything."""
        self._shares.switch("worked")
        done = [self._revalue(), self._insert(), self._give()]
        self._shares.switch("waited_input" if self.rate.may_insert else "waited_slot")
        return any(done)

    def _revalue(self) -> bool:
        """All that came back; keys of an earlier life are below 0 here, and counted as stale like all that are gone."""
        worked = False
        while (returned := self._parts.returned()) is not None:
            self.buffer.revalue(returned.keys - self._first_key, returned.priorities)
            self._parts.done(returned)
            worked = True
        return worked

    def _insert(self) -> bool:
        """One fragment, if actors are not too far ahead."""
        taken = self._samples.take(0.0) if self.rate.may_insert else None
        if taken is None:
            return False
        self._taken += 1
        self._faults.at("insert", self._taken)
        (posted,) = taken
        problem = find_problem(posted.fragment.map(torch.from_numpy))
        self._steps += int(posted.header["steps"])
        self._bad = self._bad + 1 if problem else 0
        if problem:
            self._drop(int(posted.header["rows"]), problem)
            return True
        inserted, evicted = self.buffer.inserted, self.buffer.evicted
        self.buffer.insert(posted.fragment)
        rows = self.buffer.inserted - inserted
        self._rows += rows
        self.rate.rows += rows
        self._samples.free("inserted", self.buffer.evicted - evicted)
        self._told = {name: metric.value for name, metric in self.buffer.metrics().items()}
        return True

    def _drop(self, rows: int, problem: str) -> None:
        self._samples.free("not_finite")
        self._metrics["train/dropped_not_finite"] = Total(rows)
        if self._bad >= BAD_IN_A_ROW:
            raise ShoalError(
                f"{self.name}: {self._bad} fragments in a row were not finite, the last: {problem}; "
                "try `shoal check-env` on the environment, or a smaller algorithm.lr"
            )

    def _give(self) -> bool:
        """As many parts as there is room for, and as its rows are worth."""
        worked = False
        while self.rate.may_draw and self.buffer.filled and (part := self._parts.begin()) is not None:
            drawn = self.buffer.sample_into(part.fragment, self.rate.draws)
            part.keys[:], part.chances[:] = drawn.keys + self._first_key, drawn.chances
            facts, buffer = part.facts, self.buffer
            facts["rows"], facts["steps"], facts["filled"] = self._rows, self._steps, buffer.filled
            facts["held"], facts["evicted"] = buffer.inserted - buffer.evicted, buffer.evicted
            facts["stale"], facts["greatest"] = (
                self._told.get("replay/stale", 0),
                self._told.get("replay/greatest_priority", 0),
            )
            self._rows = self._steps = 0
            self._parts.post(part)
            self.rate.draws += 1
            worked = True
        return worked
