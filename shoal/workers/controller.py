"""The controller.

Consumes the messages of all workers; produces decisions, in order: rows of metrics, checkpoints at their time, evaluations,
stages, and the end of the run with its reason. It calls nobody: whoever runs the workers takes the decisions from `todo` and
carries them out. Every policy has a clock of its own; a row is written when the policy that is furthest has made an update, and
the others have too or are still waiting for experience when it makes the next.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation, Scores
from shoal.api.experiment import Experiment
from shoal.api.messages import (
    Confirmed,
    Episodes,
    Evaluated,
    Evaluating,
    Finished,
    Message,
    Note,
    Numbers,
    Reconfigured,
    Requested,
    Shown,
    Updated,
)
from shoal.api.metric import Metric, Total
from shoal.base.cadence import Moment, is_due
from shoal.evaluation.scoreboard import Scoreboard
from shoal.monitoring.aggregate import Aggregator
from shoal.monitoring.bottleneck import TimeAccount
from shoal.monitoring.run_counts import RunCounts
from shoal.monitoring.sinks import Row
from shoal.streams.sample import Account
from shoal.workers.clocks import Clock, Counters
from shoal.workers.decisions import Confirm, Decision, EnterStage, Give, KeepScore, SaveNow, Say, WriteRow

RECENT_EPISODES = 20


class Controller:
    """Decides; whoever runs the workers obeys."""

    def __init__(
        self, experiment: Experiment, policies: list[str], *, game_return: Literal["sum", "mean"] = "sum"
    ) -> None:
        self._experiment = experiment
        self.todo: deque[Decision] = deque()
        self.counters = Counters()
        self.clocks = {policy: Clock() for policy in policies}
        self.reason: str | None = None
        self.paused = False
        self.confirmed: Scores | None = None
        self.time = TimeAccount()
        self.counts = RunCounts(policies)
        self.scoreboard = Scoreboard()
        self.stage = 0
        """Of the curriculum."""
        self.fps = 0.0
        self.baseline: dict[str, float] = {}
        """What everyone at random would earn, for every row."""
        self.settings: dict[str, dict[str, Any]] = {}
        """Policy -> the settings that it was reconfigured to, as its algorithm reads them back."""
        self.shown: dict[str, list[dict[str, Any]]] = {}
        """Title -> a table that a worker wants people to see."""
        self._aggregate = Aggregator(policies, game_return)
        self._ended: list[Episode] = []
        """Episodes of rounds that no update has learned from yet."""
        self._wanted: bool | None = None
        """Somebody wants a checkpoint; True: evaluated."""
        self._open_row: int | None = None
        """The update whose row waits for the other policies."""
        self._began = time.monotonic()
        self._saved = self._ordered = self._moment()
        self._before: Account | None = None
        self._last_row = (self._began, 0)

    # ------------------------------------------------------------ state

    def state_dict(self, account: Account) -> dict[str, Any]:
        """Counters and the windows of finished episodes, for a checkpoint. `account`: what became of the rows of this launch."""
        rows = asdict(self._account(account))
        state = {"counters": asdict(self.counters), "episodes": self._aggregate.state_dict(), "rows": rows}
        return {**state, "stage": self.stage}

    def load_state_dict(
        self, state: dict[str, Any], versions: dict[str, int], steps: dict[str, int], *, replay: bool = False
    ) -> None:
        """Go on counting. `replay`: what was kept for it is there again."""
        if "rows" in state:
            self._before = Account.parse(state["rows"]).at_rest(replay=replay)
        self.counters = Counters(**state["counters"])
        self._aggregate.load_state_dict(state["episodes"])
        self.stage = state.get("stage", 0)
        self._began = time.monotonic() - self.counters.elapsed
        self._last_row = (time.monotonic(), self.counters.steps)
        for policy, clock in self.clocks.items():
            clock.go_on(versions[policy], steps[policy], self._experiment.placement)
            clock.done = self._counted_out(clock) is not None
        self._saved = self._ordered = self._moment()
        self.reason = self._exhausted()

    # ------------------------------------------------------------ messages

    def receive(self, message: Message) -> None:
        """Take in what a worker says."""
        match message:
            case Episodes():
                self._take_numbers(message.metrics)
                self._take_episodes(message.episodes)
            case Updated():
                self._take_update(message)
            case Numbers():
                self._take_numbers(message.metrics)
            case Confirmed(version, scores) if version == self.counters.update and self.reason is None:
                self.confirm(scores)
            case Evaluating(version):
                self.scoreboard.begin(version)
            case Evaluated(evaluation) if (
                self.scoreboard.confirmed is None
            ):  # what is played after the goal is nobody's
                self._take_score(evaluation)
            case Reconfigured(policy, values):
                self.settings[policy] = values
                said = ", ".join(f"{name} = {value}" for name, value in values.items())
                self.todo.append(Say(f"{policy} goes on with {said}", "reconfigured", {"policy": policy, **values}))
            case Requested(to, order):
                self.todo.append(Give(to, order))
            case Shown(title, rows):
                self.shown[title] = rows
            case Finished(reason):
                self.stop(reason)
            case Note(text):
                self.todo.append(Say(text, "noted", {"text": text}))
        if not isinstance(message, Updated):
            self.look()

    def _take_numbers(self, metrics: dict[str, Metric]) -> None:
        self.time.add(metrics)
        self.counts.told(metrics)
        self._aggregate.add(metrics)

    def _take_episodes(self, episodes: list[Episode]) -> None:
        """In exact runs they wait for the update that learns from their round, so that who speaks first changes nothing."""
        if self._experiment.placement.exact:
            self._ended += episodes
        else:
            self._aggregate.add({}, episodes)

    def _take_update(self, message: Updated) -> None:
        """A policy has made a version, at its own pace."""
        self.time.add(message.metrics)
        self.counts.told(message.metrics)
        self._aggregate.add(self._labelled(message))
        clock = self.clocks[message.policy]
        if not message.trained:
            return
        self.counts.updated(message.policy, message.metrics)
        clock.advance(message)
        clock.done = clock.done or self._counted_out(clock) is not None
        self.counters.steps = max(self.counters.steps, clock.steps)
        newest = max(clock.version for clock in self.clocks.values())
        if newest > (self._open_row or self.counters.update):
            if self._open_row is not None:
                self._finish_update(self._open_row)
            self._open_row = newest
        if self._open_row is not None and all(c.done or c.version >= self._open_row for c in self.clocks.values()):
            self._finish_update(self._open_row)
            self._open_row = None
        self.reason = self.reason or self._late()

    def _labelled(self, message: Updated) -> dict[str, Metric]:
        """Where several policies learn, each has its own `train/<policy>/...`."""
        if len(self.clocks) < 2:
            return message.metrics
        policy = message.policy
        return {name.replace("train/", f"train/{policy}/", 1): metric for name, metric in message.metrics.items()}

    def _count_episodes(self) -> None:
        """Those of the rounds that are learned from, round by round and Env by Env."""
        due = [episode for episode in self._ended if episode.round < self.counters.update]
        self._ended = [episode for episode in self._ended if episode.round >= self.counters.update]
        self._aggregate.add({}, sorted(due, key=lambda episode: (episode.round, episode.producer)))

    def _finish_update(self, update: int) -> None:
        """A row is whole. If training says that the goal is reached, greedy episodes have to agree first."""
        self.counters.update = update
        self._count_episodes()
        self.counters.elapsed = time.monotonic() - self._began
        self.scoreboard.cost.count(self.counters.steps)
        stop = self._experiment.stop
        beside = self._experiment.evaluation is not None  # then evaluations tell, and nobody waits for them
        if self.reason is None and stop.return_ is not None and not beside and self._promises(stop.return_):
            self.todo.append(Confirm())
        else:
            self._end_update()

    def confirm(self, scores: Scores) -> None:
        """Greedy episodes were played: if they do not agree, as many new training episodes must pass first."""
        goal = self._experiment.stop.return_
        assert goal is not None, "it was reached"
        self.confirmed = scores
        recent = self._aggregate.recent_return(RECENT_EPISODES)
        passed, played = scores.mean >= goal, f"greedy mean of {len(scores.returns)} episodes {scores.mean:.1f}"
        verdict = "reached" if passed else "not yet"
        trained = f"training return {recent:.1f} (last {RECENT_EPISODES} episodes)"
        self.todo.append(Say(f"{self.counters.steps:,} steps: {trained}, {played} against {goal:g}: {verdict}"))
        if not passed:
            self._aggregate.forget_recent()
        else:
            played = f"greedy mean {scores.mean:.1f} over {len(scores.returns)} episodes"
            self.stop(f"stop.return = {goal:g} reached: {played}")
        self._end_update()

    def not_confirmed(self) -> None:
        """The run is to end before that."""
        self._end_update()

    @property
    def kept(self) -> Moment:
        """When the newest checkpoint was written, or where the run began."""
        return self._saved

    def _end_update(self) -> None:
        self.reason = self.reason or self._exhausted()
        if self.reason is not None or self.counters.update % self._experiment.log.every == 0:
            self.todo.append(WriteRow())
        if self.reason is not None:
            return
        now, evaluation = self._moment(), self._experiment.evaluation
        evaluate = evaluation is not None and is_due(evaluation.every, self._ordered, now)
        wanted, self._wanted = self._wanted, None
        if evaluate or wanted is not None or is_due(self._experiment.checkpoint.every, self._saved, now):
            self.todo.append(SaveNow(evaluate or bool(wanted)))

    def save_next(self, *, evaluate: bool) -> None:
        """Somebody wants a checkpoint, and perhaps its score: a version is whole when the next update ends."""
        self._wanted = evaluate or bool(self._wanted)

    def saved(self) -> None:
        """A checkpoint was written."""
        self._saved = self._moment()
        self.counts.saved_at = time.time()

    def order_evaluation(self) -> None:
        """The present version is saved, and will be evaluated."""
        self._ordered = self._moment()
        self.scoreboard.order(self.counters.update)

    def _moment(self) -> Moment:
        return Moment(time.monotonic(), self.counters.steps, self.counters.update)

    def stop(self, reason: str) -> None:
        """End the run: a rule, a signal, an order."""
        self.reason = self.reason or reason

    def look(self) -> None:
        """At the clock, also when no worker says anything."""
        self.reason = self.reason or self._late()

    def restarted(self, worker: str, cause: str, kinds: Sequence[str] = ()) -> None:
        """A process died and was started again: counted, and said aloud. `kinds`: of all workers that went down with it."""
        self._aggregate.add({"rollout/restarts": Total(1)})
        self.counts.restarts.update(kinds)
        self.todo.append(Say(f"{worker} was started again: {cause}"))

    # ------------------------------------------------------------ scores

    def _take_score(self, evaluation: Evaluation) -> None:
        """A version was evaluated. If its score is the goal of the run, and was confirmed, the run is over."""
        board, stages = self.scoreboard, self._experiment.curriculum
        goal = self._experiment.stop.return_ if evaluation.stage >= len(stages) - 1 else None
        self.todo.append(KeepScore(board.end(evaluation, goal)))
        assert self._experiment.evaluation is not None, "it was ordered"
        missed = board.missed(self._experiment.evaluation.metrics, evaluation.scores)
        for line in (*missed, *board.doubts(evaluation.scores)):
            self.todo.append(Say(line))
        if evaluation.confirmation is not None:
            self.confirmed = evaluation.confirmation
        if board.confirmed is not None and self.confirmed is not None:
            played = f"greedy mean {self.confirmed.mean:.1f} over {len(self.confirmed.returns)} episodes"
            self.stop(f"stop.return = {goal:g} reached by version {evaluation.version:,}: {played}")
        if evaluation.stage == self.stage < len(stages) - 1:
            self._end_stage(evaluation, stages[self.stage + 1].at)

    def _end_stage(self, evaluation: Evaluation, needed: float | None) -> None:
        """If the score is good enough, the next stage begins; what training earned before says nothing of it."""
        mean = evaluation.scores.mean
        if needed is None or mean < needed:
            return
        self.stage += 1
        self._aggregate.forget_recent()
        self.todo.append(EnterStage(self.stage))
        line = f"stage {self.stage} begins: version {evaluation.version:,} scored {mean:g} against {needed:g}"
        self.todo.append(Say(line))

    # ------------------------------------------------------------ stop rules

    @property
    def in_time(self) -> bool:
        """All steps or updates are made, and there is time left for what comes after them."""
        return self._all_counted_out() is not None and self._late() is None

    @property
    def evaluate_last(self) -> bool:
        """Whether the last version shall be evaluated."""
        beside = self._experiment.evaluation is not None and self.scoreboard.confirmed is None
        return beside and self.in_time

    def _exhausted(self) -> str | None:
        return self._all_counted_out() or self._late()

    def _all_counted_out(self) -> str | None:
        """Each policy ends by its own clock, and the run with the last of them."""
        reasons = [self._counted_out(clock) for clock in self.clocks.values()]
        return None if None in reasons else reasons[-1]

    def _counted_out(self, clock: Clock) -> str | None:
        stop = self._experiment.stop
        if stop.steps is not None and clock.steps >= stop.steps:
            return f"stop.steps = {stop.steps:,} reached"
        if stop.updates is not None and clock.version >= stop.updates:
            return f"stop.updates = {stop.updates:,} reached"
        return None

    def _late(self) -> str | None:
        seconds = self._experiment.stop.seconds
        return f"stop.seconds = {seconds:g} reached" if time.monotonic() - self._began >= seconds else None

    def _promises(self, goal: float) -> bool:
        recent = self._aggregate.recent_return(RECENT_EPISODES)
        return recent is not None and recent >= goal

    # ------------------------------------------------------------ rows

    def row(self, account: Account) -> Row:
        """All since the last one. `account`: what became of the rows of this launch."""
        now = time.monotonic()
        then, steps = self._last_row
        self._last_row = (now, self.counters.steps)
        if self.counters.steps > steps:
            self.fps = (self.counters.steps - steps) / max(now - then, 1e-9)
        extra: dict[str, float] = {"time/fps": self.fps, "time/elapsed": now - self._began, **self._rows(account)}
        extra |= self.baseline | self.scoreboard.columns()
        if len(self.clocks) > 1:
            extra |= {f"train/{policy}/version": clock.version for policy, clock in self.clocks.items()}
        if self._experiment.curriculum:
            extra["rollout/stage"] = self.stage
        recent = self._aggregate.recent_return(RECENT_EPISODES)
        if self._experiment.evaluation is None and self._experiment.stop.return_ is not None and recent is not None:
            extra["rollout/recent_return"] = recent
        if self._experiment.evaluation is None and self.confirmed is not None:
            extra["eval/mean_reward"] = self.confirmed.mean
            extra["eval/std_reward"] = self.confirmed.std
        return self._aggregate.row(self.counters.steps, self.counters.update, extra)

    def _account(self, account: Account) -> Account:
        """What became of all rows, of this launch and those before."""
        return account if self._before is None else self._before + account

    def _rows(self, account: Account) -> dict[str, float]:
        """The ledger: produced = what became of them + in flight."""
        account = self._account(account)
        return {f"rows/{name}": count for name, count in {**account.named, **account.replayed}.items()}

    @property
    def elapsed(self) -> float:
        """Seconds of the run until now."""
        return time.monotonic() - self._began

    @property
    def recent_return(self) -> float | None:
        """Mean return of the window of finished training episodes."""
        return self._aggregate.mean_return()
