"""The evaluation worker.

Consumes checkpoints that the controller names; produces scores of their versions, each of whole episodes on worlds of its own;
waits for a version that is due. A version is loaded once and the worlds are reset for it, so no episode is played by two. Training
waits for none of this: of all that becomes due while it plays, it takes the newest when it is through.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from shoal.api.env import Env
from shoal.api.evaluation import Evaluation, Scores
from shoal.api.experiment import EvaluationConfig, StopConfig
from shoal.api.worker import Pulse, Report, Worker
from shoal.base.errors import InputError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.seeding import derive_seed
from shoal.checkpoints.checkpoint import Checkpoint, stage_of
from shoal.checkpoints.store import CheckpointStore
from shoal.evaluation.clips import Clip, Clips
from shoal.evaluation.episodes import Sitting
from shoal.evaluation.evaluator import Evaluator, Judge
from shoal.monitoring.logs import LOG
from shoal.streams.primitives import Mailbox, Waiter

STEPS_PER_POLL = 8
"""Steps of the worlds between two looks at the rest of the process."""


@dataclass(frozen=True)
class Rules:
    """How versions are judged."""

    config: EvaluationConfig
    stop: StopConfig
    """Where it names a return, versions that reach it are confirmed at once."""
    seed: int
    timeout: float
    """Of a step of the worlds."""
    last_stage: int = 0
    """Of the curriculum: only there the return counts that `stop` names."""


@dataclass
class _Open:
    """A version that is being judged."""

    found: Checkpoint
    table: Evaluator
    sitting: Sitting
    began: float
    scores: Scores | None = None
    """Of the first sitting."""
    confirmation: Scores | None = None
    """Of the second, if there was one."""
    filming: Clip | None = None
    """The last sitting is for the camera."""


class EvaluationWorker(Worker):
    """Judges the newest version that is due, one after the other. `judged`: the last that an earlier life judged."""

    def __init__(
        self, name: str, env: Env, orders: Mailbox, store: CheckpointStore, judge: Judge, rules: Rules, waiter: Waiter, *,
        judged: int = -1, pulse: Pulse | None = None, faults: Faults = NO_FAULTS, clips: Clips | None = None,
    ) -> None:  # fmt: skip
        self.name, self._env, self._clips = name, env, clips
        self._orders, self._store, self._judge, self._rules = orders, store, judge, rules
        self._waiter, self._faults, self._pulse = waiter, faults, pulse or Pulse()
        self._taken = judged
        self._open: _Open | None = None
        self._held, self._held_before = ExitStack(), ExitStack()
        self._steps = 0

    def poll(self, timeout: float) -> Report:
        if self._open is None and not self._waiter.wait_until(self._due, timeout):
            return Report()
        self._pulse.beat()
        report = self._begin() if self._open is None else self._go_on(self._open)
        self._pulse.rest()
        return report

    def close(self) -> None:
        if self._open is not None and self._open.filming is not None:
            self._open.filming.drop()
        if self._clips is not None:
            self._clips.env.close()
        self._held.close()
        self._held_before.close()
        self._env.close()

    def _due(self) -> bool:
        return self._orders.latest() > self._taken

    def _begin(self) -> Report:
        """Load the newest version that is due and reset the worlds for it."""
        self._taken = version = self._orders.latest()
        began = time.monotonic()
        try:
            found = self._load(version)
        except InputError as error:  # removed before we came, or damaged: a newer one will be due
            LOG.warning("version %d is not judged: %s", version, error)
            return Report(True)
        table, config = self._judge(found), self._rules.config
        sitting = self._sit(table, config.episodes, "evaluation", version, config.seconds)
        self._open = _Open(found, table, sitting, began)
        return Report(True, evaluating=version)

    def _load(self, version: int) -> Checkpoint:
        """Nobody removes it while it is judged, nor until the next is: its score may be the best, and has to be heard first."""
        with ExitStack() as held:
            held.enter_context(self._store.hold(version))
            found = self._store.load(version)
            self._held_before.close()
            self._held_before, self._held = self._held, held.pop_all()
        return found

    def _sit(
        self, table: Evaluator, episodes: int, purpose: str, version: int, seconds: float | None = None
    ) -> Sitting:
        seed = derive_seed(self._rules.seed, purpose, counter=version)
        return table.sit(episodes, seed=seed, seconds=seconds, timeout=self._rules.timeout)

    def _go_on(self, open_: _Open) -> Report:
        for _ in range(STEPS_PER_POLL):
            open_.sitting.step()
            self._pulse.beat()
            self._steps += 1
            self._faults.at("step", self._steps)
            if open_.filming is not None and not open_.sitting.over:  # else the next episode may have begun already
                open_.filming.shoot()
            if open_.sitting.over or (open_.filming is not None and open_.filming.full):
                return self._end_sitting(open_)
        return Report(True)

    def _end_sitting(self, open_: _Open) -> Report:
        """Scores that reach the goal of the run are confirmed on fresh seeds, by the same version; then it may be filmed."""
        version, stop = open_.found.version, self._rules.stop
        if open_.filming is not None:
            return self._tell(open_, open_.filming.end())
        scores = open_.sitting.scores()
        if open_.scores is None:
            open_.scores = scores
            goal = stop.return_ if stage_of(open_.found) >= self._rules.last_stage else None
            if goal is not None and scores.mean >= goal:
                open_.sitting = self._sit(open_.table, stop.episodes, "confirmation", version)
                return Report(True)
        else:
            open_.confirmation = scores
        if self._clips is None or not self._clips.due:
            return self._tell(open_)
        open_.sitting = self._sit(self._clips.judge(open_.found), 1, "film", version)
        open_.filming = self._clips.begin(version)
        return Report(True)

    def _tell(self, open_: _Open, video: str | None = None) -> Report:
        self._open = None
        seconds, found = time.monotonic() - open_.began, open_.found
        assert open_.scores is not None
        judged = Evaluation(
            found.version, found.meta["steps"], open_.scores, seconds, open_.confirmation, video, stage_of(found)
        )
        return Report(True, evaluation=judged)
