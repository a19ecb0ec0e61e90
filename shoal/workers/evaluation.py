"""The evaluation worker.

Consumes parameters of versions that the controller names; produces their scores, each of whole episodes in environments of its own;
waits for a version that is due. A version is loaded once and the environments are reset for it, so no episode is played by two.
Training waits for none of this: of all that becomes due while it plays, it takes the newest when it is through. Takes the order
Evaluate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from shoal.api.env import Env
from shoal.api.evaluation import Evaluation, Scores
from shoal.api.experiment import EvaluationConfig, Experiment, StopConfig
from shoal.api.messages import Evaluated, Evaluating, Message, Numbers
from shoal.api.orders import Evaluate, Order
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Port, Program, WorkerSpec, resolved
from shoal.api.worker import Heartbeat, Worker
from shoal.base.errors import InputError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.seeding import derive_seed
from shoal.envs.curriculum import StagedEnv
from shoal.evaluation.clips import Clip, Clips, check_drawn
from shoal.evaluation.episodes import EpisodeBatch, copies_for
from shoal.evaluation.evaluator import Evaluator
from shoal.evaluation.matches import MatchBatch, Matches
from shoal.rollout.plans import Plans
from shoal.streams.primitives import Waiter
from shoal.workers.context import Context
from shoal.workers.weights import Weights, make_weights, seating, weight_ports

STEPS_PER_POLL = 8
"""Steps of the environments between two looks at the rest of the process."""


class EvaluationSpec(WorkerSpec):
    """The evaluation worker of a run that has evaluations."""

    kind: ClassVar[str] = "evaluation"
    events: ClassVar[tuple[str, ...]] = ("step",)
    rank_in_process: ClassVar[int] = 60
    steps_env: ClassVar[bool] = True
    pinned: ClassVar[bool] = False

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        return [] if program.experiment.evaluation is None else [cls(name="evaluation")]

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        return weight_ports(program, plans)

    def build(self, context: Context) -> EvaluationWorker:
        program, experiment = context.program, context.program.experiment
        config = resolved(experiment.evaluation)
        env = StagedEnv(experiment, copies_for(config.episodes, experiment.env))
        env.watched = config.metrics
        rules = Rules(
            config, experiment.stop, experiment.seed, experiment.env.timeout, max(0, len(experiment.curriculum) - 1)
        )  # fmt: skip
        plans = Plans(program)  # a trainer in the same process has its own
        weights = make_weights(context, plans)
        return EvaluationWorker(
            self.name, env, weights, seating(program, plans, weights), rules,
            context.streams.waiter, evaluated=context.life.evaluated, heartbeat=context.heartbeat,
            faults=context.faults_of(self), clips=_clips(experiment, config, context.checkpoints),
        )  # fmt: skip


def _clips(experiment: Experiment, config: EvaluationConfig, checkpoints: Path | None) -> Clips | None:
    if config.video is None:
        return None
    if checkpoints is None:
        raise InputError("evaluation.video: the run's folder cannot be reached from the evaluation worker's machine")
    env = StagedEnv(experiment, 1, render=True)
    check_drawn(env, experiment.env.id)
    return Clips(checkpoints.with_name("videos"), config.video, env)


@dataclass(frozen=True)
class Rules:
    """How versions are evaluated."""

    config: EvaluationConfig
    stop: StopConfig
    """Where it names a return, versions that reach it are confirmed at once."""
    seed: int
    timeout: float
    """Of a step of the environments."""
    last_stage: int = 0
    """Of the curriculum: only there the return counts that `stop` names."""


@dataclass
class _Open:
    """A version that is being evaluated."""

    order: Evaluate
    players: Evaluator | Matches
    episodes: EpisodeBatch | MatchBatch
    began: float
    scores: Scores | None = None
    """Of the first episodes."""
    confirmation: Scores | None = None
    """Of the second, if there were any."""
    filming: Clip | None = None
    """The last episode is for the camera."""


class EvaluationWorker(Worker):
    """Evaluates the newest version that is due, one after the other. `evaluated`: the last that an earlier life evaluated."""

    def __init__(
        self, name: str, env: StagedEnv, weights: Weights, seat: Callable[[Env], Evaluator | Matches], rules: Rules,
        waiter: Waiter, *, evaluated: int = -1, heartbeat: Heartbeat | None = None, faults: Faults = NO_FAULTS,
        clips: Clips | None = None,
    ) -> None:  # fmt: skip
        self.name, self._env, self._clips = name, env, clips
        self._weights, self._seat, self._rules = weights, seat, rules
        self._waiter, self._faults, self._heartbeat = waiter, faults, heartbeat or Heartbeat()
        env.between = self._heartbeat.between
        self._due: Evaluate | None = None
        self._begun = evaluated
        self._open: _Open | None = None
        self._steps = 0

    def handle(self, order: Order) -> list[Message]:
        if isinstance(order, Evaluate) and order.version > self._begun:
            self._due = order
        return []

    def poll(self, timeout: float) -> list[Message]:
        if self._open is None and not self._waiter.wait_until(self._arrived, timeout):
            return []
        self._heartbeat.beat()
        said = self._begin() if self._open is None else self._go_on(self._open)
        self._heartbeat.rest()
        return [said]

    def close(self) -> None:
        if self._open is not None and self._open.filming is not None:
            self._open.filming.drop()
        if self._clips is not None:
            self._clips.env.close()
        self._env.close()

    def _arrived(self) -> bool:
        return self._due is not None and self._weights.arrived(self._due.version)

    def _begin(self) -> Message:
        """Load the version that is due and reset the environments for it."""
        order, self._due = self._due, None
        assert order is not None, "it has arrived"
        self._begun = order.version
        if not self._weights.hold(order.version):  # a newer one is due
            return Numbers()
        began, config = time.monotonic(), self._rules.config
        self._env.enter(order.stage)
        players = self._seat(self._env)
        episodes = self._play(players, config.episodes, "evaluation", order.version, config.seconds)
        self._open = _Open(order, players, episodes, began)
        return Evaluating(order.version)

    def _play(
        self, players: Evaluator | Matches, episodes: int, purpose: str, version: int, seconds: float | None = None
    ) -> EpisodeBatch | MatchBatch:
        seed = derive_seed(self._rules.seed, purpose, counter=version)
        return players.begin(episodes, seed=seed, seconds=seconds, timeout=self._rules.timeout)

    def _go_on(self, open_: _Open) -> Message:
        for _ in range(STEPS_PER_POLL):
            open_.episodes.step()
            self._heartbeat.beat()
            self._steps += 1
            self._faults.at("step", self._steps)
            if open_.filming is not None and not open_.episodes.over:  # else the next episode may have begun already
                open_.filming.shoot()
            if open_.episodes.over or (open_.filming is not None and open_.filming.full):
                return self._end_episodes(open_)
        return Numbers()

    def _end_episodes(self, open_: _Open) -> Message:
        """Scores that reach the goal of the run are confirmed on fresh seeds, by the same version; then it may be filmed."""
        version, stop = open_.order.version, self._rules.stop
        if open_.filming is not None:
            return self._tell(open_, open_.filming.end())
        scores = open_.episodes.scores()
        if open_.scores is None:
            open_.scores = scores
            goal = stop.return_ if open_.order.stage >= self._rules.last_stage else None
            if goal is not None and scores.mean >= goal:
                open_.episodes = self._play(open_.players, stop.episodes, "confirmation", version)
                return Numbers()
        else:
            open_.confirmation = scores
        if self._clips is None or not self._clips.due:
            return self._tell(open_)
        self._clips.env.enter(open_.order.stage)
        open_.episodes = self._play(self._seat(self._clips.env).first, 1, "film", version)
        open_.filming = self._clips.begin(version)
        return Numbers()

    def _tell(self, open_: _Open, video: str | None = None) -> Message:
        self._open = None
        order, seconds = open_.order, time.monotonic() - open_.began
        assert open_.scores is not None
        return Evaluated(
            Evaluation(order.version, order.steps, open_.scores, seconds, open_.confirmation, video, order.stage)
        )
