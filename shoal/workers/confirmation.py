"""The confirmation worker.

Consumes parameters of the version that training says has reached `stop.return`; produces the scores of whole greedy episodes, in
environments of its own on seeds that no training episode uses; in self-play against the opponents that evaluations would have.
Waits for such a version. Trainers rest meanwhile, so that the run ends with the version that was confirmed. A run with an
evaluation worker has none. Takes the order Evaluate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

from shoal.api.cluster import ResourcesConfig
from shoal.api.env import Env
from shoal.api.messages import Confirmed, Message, Numbers
from shoal.api.orders import Evaluate, Order
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Port, Program, WorkerSpec
from shoal.api.worker import Heartbeat, Worker
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.seeding import derive_seed
from shoal.envs.curriculum import make_staged
from shoal.evaluation.episodes import EpisodeBatch, copies_for
from shoal.evaluation.evaluator import Evaluator
from shoal.evaluation.matches import MatchBatch, Matches
from shoal.rollout.plans import Plans
from shoal.streams.primitives import Waiter
from shoal.workers.context import Context
from shoal.workers.weights import Weights, make_weights, seating, weight_ports

STEPS_PER_POLL = 8
"""Steps of the environments between two looks at the rest of the process."""
MAKING = 60.0
"""Seconds that the environments may take to be made, on top of `env.timeout`."""


class ConfirmationSpec(WorkerSpec):
    """The confirmation worker of a run that has a return to reach, and no evaluations."""

    kind: ClassVar[str] = "confirmation"
    events: ClassVar[tuple[str, ...]] = ("step",)
    rank_in_process: ClassVar[int] = 60
    steps_env: ClassVar[bool] = True
    pinned: ClassVar[bool] = False

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        experiment = program.experiment
        due = experiment.stop.return_ is not None and experiment.evaluation is None
        return [cls(name="confirmation")] if due else []

    def needed(self, program: Program) -> bool:
        """Not for training: it takes no place from those who are."""
        return False

    def resources(self, program: Program) -> ResourcesConfig:
        """It works while the trainers rest, so by default it reserves nothing."""
        return program.experiment.placement.cluster.others.get(self.kind) or ResourcesConfig(cpus=0)

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        return weight_ports(program, plans)

    def build(self, context: Context) -> ConfirmationWorker:
        program, experiment = context.program, context.program.experiment
        plans = Plans(program)  # a trainer in the same process has its own
        weights = make_weights(context, plans)
        copies = copies_for(experiment.stop.episodes, experiment.env)
        return ConfirmationWorker(
            self.name, weights, lambda: make_staged(experiment, 0, copies),
            seating(program, plans, weights), context.streams.waiter, episodes=experiment.stop.episodes,
            seed=experiment.seed, timeout=experiment.env.timeout, heartbeat=context.heartbeat,
            faults=context.faults_of(self),
        )  # fmt: skip


class ConfirmationWorker(Worker):
    """Its environments are made when they are needed for the first time: many runs end without that."""

    def __init__(
        self, name: str, weights: Weights, make: Callable[[], Env], seat: Callable[[Env], Evaluator | Matches],
        waiter: Waiter, *, episodes: int, seed: int, timeout: float, heartbeat: Heartbeat | None = None,
        faults: Faults = NO_FAULTS,
    ) -> None:  # fmt: skip
        self.name, self._weights, self._make, self._seat, self._waiter = name, weights, make, seat, waiter
        self._count, self._seed, self._timeout = episodes, seed, timeout
        self._heartbeat, self._faults = heartbeat or Heartbeat(), faults
        self._due: Evaluate | None = None
        self._env: Env | None = None
        self._episodes: EpisodeBatch | MatchBatch | None = None
        self._steps = 0

    def handle(self, order: Order) -> list[Message]:
        if isinstance(order, Evaluate):
            self._due, self._episodes = order, None
        return []

    def poll(self, timeout: float) -> list[Message]:
        if not self._waiter.wait_until(self._arrived, timeout):
            return []
        assert self._due is not None, "it has arrived"
        if self._episodes is None:
            return self._begin(self._due)
        for _ in range(STEPS_PER_POLL):
            self._heartbeat.beat()
            self._episodes.step()
            self._steps += 1
            self._faults.at("step", self._steps)
            if self._episodes.over:
                scores, version = self._episodes.scores(), self._due.version
                self._due = self._episodes = None
                return [Confirmed(version, scores)]
        return [Numbers()]

    def _arrived(self) -> bool:
        return self._due is not None and self._weights.arrived(self._due.version)

    def _begin(self, order: Evaluate) -> list[Message]:
        if not self._weights.hold(order.version):  # a newer one is due
            self._due = None
            return []
        if self._env is None:
            self._heartbeat.begin(MAKING, in_env=True)
            self._env = self._make()
            self._env.between = self._heartbeat.between
        self._heartbeat.beat()
        seed = derive_seed(self._seed, "confirmation", counter=order.version)
        self._episodes = self._seat(self._env).begin(self._count, seed=seed, timeout=self._timeout)
        return [Numbers()]

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
