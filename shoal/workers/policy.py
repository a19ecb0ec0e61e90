"""The policy worker.

Consumes asks of many actors and parameter versions; produces answers, stamped with the version that decided; waits for asks. It
batches whatever came while it was busy, and never waits for more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import torch

from shoal.api.messages import Message, Numbers
from shoal.api.metric import Mean
from shoal.api.policy import Policy
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Port, Program, WorkerSpec
from shoal.api.worker import Worker
from shoal.base.device import CPU, find_device
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.tree import Tree, tree_map
from shoal.monitoring.shares import Shares
from shoal.streams import names
from shoal.streams.inference import Answer, Ask, decide
from shoal.streams.inference_rings import AskLine, inference_shapes
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Waiter
from shoal.workers.context import Context
from shoal.workers.replica_sync import sync_class


class PolicyWorkerSpec(WorkerSpec):
    """One of the policy workers of a policy: it decides for whole actors, dealt out in turn."""

    kind: ClassVar[str] = "policy"
    events: ClassVar[tuple[str, ...]] = ("batch",)
    rank_in_process: ClassVar[int] = 20

    policy: str
    """That decides."""
    number: int
    """Which of that policy's workers."""

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        if program.experiment.placement.inference != "worker":
            return []
        numbers = range(program.experiment.placement.policy_workers)
        return [cls(name=f"policy-{p}-{n}", policy=p, number=n) for p in program.learners for n in numbers]

    def device(self, program: Program) -> str:
        return program.experiment.placement.policy_device

    def clients(self, program: Program) -> list[int]:
        """The producers that it decides for."""
        ring, workers = program.experiment.placement.ring, program.experiment.placement.policy_workers
        return [producer for producer in range(program.producers) if producer // ring % workers == self.number]

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        ports = [Port(sync_class(program).version(self.policy, 0), "read")]
        _, answer = inference_shapes(plans[self.policy], plans[self.policy].spec.lanes // program.producers)
        for producer in self.clients(program):
            ports.append(Port(names.ask(producer, self.policy), "read"))
            ports.append(Port(names.answer(producer, self.policy), "write", answer))
        return ports

    def build(self, context: Context) -> PolicyWorker:
        streams = context.streams
        device = find_device(self.device(context.program), self.number, key="placement.policy_device")
        copy, flat = context.plans[self.policy].copy_policy(device, context.arithmetic(device))
        lines = [
            AskLine(streams.ring(names.ask(p, self.policy)), streams.ring(names.answer(p, self.policy)))
            for p in self.clients(context.program)
        ]
        reader = context.reader(self.policy, sync_class(context.program).version(self.policy, 0), flat)
        return PolicyWorker(
            self.name, copy, reader, lines, streams.waiter, device=device, faults=context.faults_of(self)
        )


class PolicyWorker(Worker):
    """Decides for the clients behind `lines`, all of one policy."""

    def __init__(
        self, name: str, policy: Policy, reader: ParameterReader, lines: list[AskLine], waiter: Waiter, *,
        device: torch.device = torch.device(CPU), faults: Faults = NO_FAULTS,
    ) -> None:  # fmt: skip
        self.name = name
        self._policy, self._reader, self._lines, self._waiter, self._faults = policy, reader, lines, waiter, faults
        self._device = device
        self._shares = Shares("policy")
        self._batches = 0

    def poll(self, timeout: float) -> list[Message]:
        if not self._waiter.wait_until(self._has_requests, timeout):
            return []
        self._shares.switch("worked")
        rows = self._serve()
        self._shares.switch("waited_input")
        self._batches += 1
        self._faults.at("batch", self._batches)
        return [Numbers({"inference/batch": Mean(rows), **self._shares.take()})]

    def _has_requests(self) -> bool:
        return any(line.take() and self._reader.published(line.round) for line in self._lines)

    def _serve(self) -> int:
        """Answer those asks whose version is there, oldest round first; the rows of one forward per version."""
        rounds: dict[int, list[AskLine]] = {}
        for line in self._lines:
            if line.take() and self._reader.published(line.round):
                rounds.setdefault(line.round, []).append(line)
        return sum(self._answer(rounds[round_]) for round_ in sorted(rounds) if self._reader.pin(round_))

    def _answer(self, lines: list[AskLine]) -> int:
        asks = [line.ask for line in lines]
        answer = decide(self._policy, joined(asks), explore=True, version=self._reader.version, device=self._device)
        start = 0
        for line, ask in zip(lines, asks, strict=True):
            stop = start + len(ask.first)
            line.answer(_rows(answer, slice(start, stop)))
            start = stop
        return start


def joined(asks: list[Ask]) -> Ask:
    """One ask of all rows; a single one is not copied."""
    if len(asks) == 1:
        return asks[0]

    def column(name: str) -> Tree:
        return tree_map(lambda *arrays: np.concatenate(arrays), *(getattr(ask, name) for ask in asks))

    return Ask(**{name: column(name) for name in vars(asks[0])})


def _rows(answer: Answer, rows: slice) -> Answer:
    def cut(array: np.ndarray) -> np.ndarray:
        return array[rows]

    return Answer(cut(answer.action), tree_map(cut, answer.extras), tree_map(cut, answer.state), answer.version)
