"""The controller.

Consumes the reports of all workers and the orders of the panel; produces rows of metrics, checkpoints at their time, and the end of
the run with its reason. What it steers by, it is given: see Surroundings.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation, Scores
from shoal.api.experiment import Experiment
from shoal.api.metric import Total
from shoal.api.worker import Report
from shoal.base.cadence import Moment, is_due
from shoal.evaluation.scoreboard import Scoreboard
from shoal.monitoring.aggregate import Aggregator
from shoal.monitoring.bottleneck import TimeAccount
from shoal.monitoring.sinks import Sink
from shoal.streams.sample import Account

RECENT_EPISODES = 20


class HasFileno(Protocol):
    """Something to wait for."""

    def fileno(self) -> int:
        """Its file descriptor."""


@dataclass
class Counters:
    """Where the run stands; saved with every checkpoint, so that a resumed run goes on counting."""

    steps: int = 0
    update: int = 0
    elapsed: float = 0.0


class Surroundings(Protocol):
    """What a controller can ask of the run around it."""

    def quiet(self) -> None:
        """Return when no trainer is inside an update."""

    def save(self) -> None:
        """Write a checkpoint of this moment."""

    def evaluate(self, version: int) -> None:
        """Let a version that is saved be judged, whenever somebody has time."""

    def judged(self, event: dict[str, Any]) -> None:
        """Keep the score of a version; and the version itself, if it is the best."""

    def confirm(self) -> Scores:
        """Play greedy episodes with the newest version."""

    def enter_stage(self, stage: int) -> None:
        """Let all worlds go on in this stage of the curriculum."""

    def accounts(self) -> Account:
        """What became of all rows."""

    def listen(self) -> None:
        """Take orders from the panel, if there are any."""

    def note(self, text: str) -> None:
        """Say something aloud."""


class Controller:
    """Decides; whoever runs the workers obeys."""

    def __init__(
        self, experiment: Experiment, policies: list[str], sink: Sink, around: Surroundings, *,
        game_return: Literal["sum", "mean"] = "sum",
    ) -> None:  # fmt: skip
        self._experiment, self._sink, self._around = experiment, sink, around
        self.counters = Counters()
        self._versions = dict.fromkeys(policies, 0)
        self._steps: dict[str, dict[int, int]] = {policy: {} for policy in policies}
        self.reason: str | None = None
        self.paused = False
        self.doors: list[HasFileno] = []
        """What else to wait for besides the workers: where orders come in."""
        self.confirmed: Scores | None = None
        self.time = TimeAccount()
        self.scoreboard = Scoreboard()
        self._aggregate = Aggregator(policies, game_return)
        self._ended: list[Episode] = []
        """Episodes of rounds that no update has learned from yet."""
        self._began = time.monotonic()
        self._saved = self._ordered = self._moment()
        self._before: Account | None = None
        self.stage = 0
        """Of the curriculum."""
        self._last_row = (self._began, 0)
        self.fps = 0.0
        self.baseline: dict[str, float] = {}
        """What everyone at random would earn, for every row."""

    def state_dict(self) -> dict[str, Any]:
        """Counters and the windows of finished episodes, for a checkpoint."""
        rows = asdict(self._account())
        state = {"counters": asdict(self.counters), "episodes": self._aggregate.state_dict(), "rows": rows}
        return {**state, "stage": self.stage}

    def load_state_dict(self, state: dict[str, Any], *, replay: bool = False) -> None:
        """Go on counting. `replay`: what was kept for it is there again."""
        if "rows" in state:
            self._before = Account(**state["rows"]).at_rest(replay=replay)
        self.counters = Counters(**state["counters"])
        self._aggregate.load_state_dict(state["episodes"])
        self.stage = state.get("stage", 0)
        self._began = time.monotonic() - self.counters.elapsed
        self._last_row = (time.monotonic(), self.counters.steps)
        self._versions = dict.fromkeys(self._versions, self.counters.update)
        self._saved = self._ordered = self._moment()
        self.reason = self._exhausted()

    def receive(self, report: Report) -> None:
        """Take in what one poll did. An update is over when every policy has its new version: then write, save and judge."""
        self.time.add(report.metrics)
        self._aggregate.add(self._labelled(self._ordered_by_round(report)))
        if report.version is not None:
            self._versions[report.policy] = max(report.version, self._versions[report.policy])
            self._steps[report.policy][report.replica] = report.trained_steps
            self.counters.steps = max(self.counters.steps, *(sum(by.values()) for by in self._steps.values()))
        if min(self._versions.values()) > self.counters.update:
            self._finish_update()
        else:
            self.reason = self.reason or self._late()
        if report.evaluating is not None:
            self.scoreboard.begin(report.evaluating)
        if (
            report.evaluation is not None and self.scoreboard.confirmed is None
        ):  # what is played after the goal is nobody's
            self._take_score(report.evaluation)

    def _take_score(self, evaluation: Evaluation) -> None:
        """A version was judged. If its score is the goal of the run, and was confirmed, the run is over."""
        board, stages = self.scoreboard, self._experiment.curriculum
        goal = self._experiment.stop.return_ if evaluation.stage >= len(stages) - 1 else None
        self._around.judged(board.end(evaluation, goal))
        assert self._experiment.evaluation is not None, "it was ordered"
        for line in board.missed(self._experiment.evaluation.metrics, evaluation.scores):
            self._around.note(line)
        if evaluation.confirmation is not None:
            self.confirmed = evaluation.confirmation
        if board.confirmed is not None and self.confirmed is not None:
            played = f"greedy mean {self.confirmed.mean:.1f} over {len(self.confirmed.returns)} episodes"
            self.stop(f"stop.return = {goal:g} reached by version {evaluation.version:,}: {played}")

        if evaluation.stage == self.stage < len(stages) - 1:
            self._leave_stage(evaluation, stages[self.stage + 1].at)

    def _leave_stage(self, evaluation: Evaluation, needed: float | None) -> None:
        """If the score is good enough, the next stage begins; what training earned before says nothing of it."""
        mean = evaluation.scores.mean
        if needed is None or mean < needed:
            return
        self.stage += 1
        self._aggregate.forget_recent()
        self._around.enter_stage(self.stage)
        self._around.note(
            f"stage {self.stage} begins: version {evaluation.version:,} scored {mean:g} against {needed:g}"
        )

    def _ordered_by_round(self, report: Report) -> Report:
        """In exact runs episodes wait for the update that learns from their round, so that who speaks first changes nothing."""
        if not report.episodes or not self._experiment.placement.exact:
            return report
        self._ended += report.episodes
        return replace(report, episodes=[])

    def _count_episodes(self) -> None:
        """Those of the rounds that are learned from, round by round and Env by Env."""
        due = [episode for episode in self._ended if episode.round < self.counters.update]
        self._ended = [episode for episode in self._ended if episode.round >= self.counters.update]
        self._aggregate.add(Report(episodes=sorted(due, key=lambda episode: (episode.round, episode.producer))))

    def _labelled(self, report: Report) -> Report:
        """Where several policies learn, each has its own `train/<policy>/...`."""
        if len(self._versions) < 2 or report.version is None:
            return report
        named = {
            name.replace("train/", f"train/{report.policy}/", 1): metric for name, metric in report.metrics.items()
        }
        return replace(report, metrics=named)

    def _finish_update(self) -> None:
        self.counters.update = min(self._versions.values())
        self._count_episodes()
        self.counters.elapsed = time.monotonic() - self._began
        self.scoreboard.cost.count(self.counters.steps)
        self.reason = self.reason or self._over()
        if self.reason is not None or self.counters.update % self._experiment.log.every == 0:
            self._write_row()
        if self.reason is None:
            self._save_what_is_due()

    def _save_what_is_due(self) -> None:
        now, evaluation = self._moment(), self._experiment.evaluation
        judge = evaluation is not None and is_due(evaluation.every, self._ordered, now)
        if judge or is_due(self._experiment.checkpoint.every, self._saved, now):
            self.save()
        if judge:
            self._ordered = now
            self.order_evaluation()

    def order_evaluation(self) -> None:
        """Let the present version be judged, which is saved."""
        self.scoreboard.order(self.counters.update)
        self._around.evaluate(self.counters.update)

    def _moment(self) -> Moment:
        return Moment(time.monotonic(), self.counters.steps, self.counters.update)

    def version_of(self, policy: str) -> int:
        """The newest that was reported."""
        return self._versions[policy]

    def steps_of(self, ranks: list[int]) -> int:
        """Environment steps behind what replicas reported in this launch; those of replicas in step are counted by the first."""
        return max(sum(by.get(rank, 0) for rank in ranks) for by in self._steps.values())

    def save(self) -> None:
        """Write a checkpoint now."""
        if self.reason is None:
            self._around.quiet()
        self._around.save()
        self._saved = self._moment()

    def listen(self) -> None:
        """Hear what was ordered."""
        self._around.listen()

    def stop(self, reason: str) -> None:
        """End the run from outside: a signal, an order."""
        self.reason = self.reason or reason

    def restarted(self, worker: str, cause: str) -> None:
        """A worker died and was started again: counted, and said aloud."""
        self._aggregate.add(Report(metrics={"rollout/restarts": Total(1)}))
        self._around.note(f"{worker} was started again: {cause}")

    # ------------------------------------------------------------ stop rules

    def _over(self) -> str | None:
        stop = self._experiment.stop
        beside = self._experiment.evaluation is not None  # then evaluations tell, and nobody waits for them
        if stop.return_ is not None and not beside and self._reached(stop.return_):
            assert self.confirmed is not None
            played = f"greedy mean {self.confirmed.mean:.1f} over {len(self.confirmed.returns)} episodes"
            return f"stop.return = {stop.return_:g} reached: {played}"
        return self._exhausted()

    @property
    def judge_last(self) -> bool:
        """Whether the last version shall be judged: all steps or updates are made, and there is time left."""
        beside = self._experiment.evaluation is not None and self.scoreboard.confirmed is None
        return beside and self._counted_out() is not None and self._late() is None

    def _exhausted(self) -> str | None:
        return self._counted_out() or self._late()

    def _counted_out(self) -> str | None:
        stop, counters = self._experiment.stop, self.counters
        if stop.steps is not None and counters.steps >= stop.steps:
            return f"stop.steps = {stop.steps:,} reached"
        if stop.updates is not None and counters.update >= stop.updates:
            return f"stop.updates = {stop.updates:,} reached"
        return None

    def _late(self) -> str | None:
        seconds = self._experiment.stop.seconds
        return f"stop.seconds = {seconds:g} reached" if time.monotonic() - self._began >= seconds else None

    def _reached(self, goal: float) -> bool:
        """Training says so, and greedy episodes agree; if not, as many new training episodes must pass first."""
        recent = self._aggregate.recent_return(RECENT_EPISODES)
        if recent is None or recent < goal:
            return False
        self._around.quiet()
        self.confirmed = self._around.confirm()
        passed = self.confirmed.mean >= goal
        verdict = "reached" if passed else "not yet"
        self._around.note(
            f"{self.counters.steps:,} steps: training return {recent:.1f}, greedy mean of "
            f"{len(self.confirmed.returns)} episodes {self.confirmed.mean:.1f} against {goal:g}: {verdict}"
        )
        self._aggregate.forget_recent()
        return passed

    # ------------------------------------------------------------ rows

    def tell_last_score(self) -> None:
        """A score that came after the last row has one of its own."""
        if self.scoreboard.untold:
            self._write_row()

    def _write_row(self) -> None:
        now = time.monotonic()
        then, steps = self._last_row
        self._last_row = (now, self.counters.steps)
        if self.counters.steps > steps:
            self.fps = (self.counters.steps - steps) / max(now - then, 1e-9)
        extra: dict[str, float] = {"time/fps": self.fps, "time/elapsed": now - self._began, **self._rows()}
        extra |= self.baseline | self.scoreboard.columns()
        if self._experiment.curriculum:
            extra["rollout/stage"] = self.stage
        if self._experiment.evaluation is None and self.confirmed is not None:
            extra["eval/mean_reward"] = self.confirmed.mean
            extra["eval/std_reward"] = self.confirmed.std
        self._sink.write(self._aggregate.row(self.counters.steps, self.counters.update, extra))

    def _account(self) -> Account:
        """What became of all rows, of this launch and those before."""
        account = self._around.accounts()
        return account if self._before is None else self._before + account

    def _rows(self) -> dict[str, float]:
        """The books: produced = what became of them + in flight."""
        account = self._account()
        return {f"rows/{name}": count for name, count in {**account.named, **account.replayed}.items()}

    @property
    def elapsed(self) -> float:
        """Seconds of the run until now."""
        return time.monotonic() - self._began

    @property
    def recent_return(self) -> float | None:
        """Mean return of the window of finished training episodes."""
        return self._aggregate.mean_return()
