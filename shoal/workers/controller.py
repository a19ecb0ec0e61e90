"""The controller.

Consumes the reports of all workers; produces rows of metrics, checkpoints at their time, and the end of the run with its
reason. It steers by two things it is given: how to save, and how to confirm a score.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from shoal.api.experiment import Experiment
from shoal.api.metric import Total
from shoal.api.worker import Report
from shoal.monitoring.aggregate import Aggregator
from shoal.monitoring.sinks import Sink
from shoal.rollout.evaluate import Scores

CONFIRM_EPISODES = 100
RECENT_EPISODES = 20


@dataclass
class Counters:
    """Where the run stands; saved with every checkpoint, so that a resumed run goes on counting."""

    steps: int = 0
    update: int = 0
    elapsed: float = 0.0


class Controller:
    """Decides; whoever runs the workers obeys."""

    def __init__(
        self, experiment: Experiment, policies: list[str], sink: Sink, *, save: Callable[[], None], confirm: Callable[[], Scores],
        note: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._experiment, self._sink, self._save, self._confirm, self._note = experiment, sink, save, confirm, note
        self.counters = Counters()
        self._versions = dict.fromkeys(policies, 0)
        self.reason: str | None = None
        self.confirmed: Scores | None = None
        self._aggregate = Aggregator()
        self._began = self._saved = time.monotonic()
        self._last_row = (self._began, 0)

    def state_dict(self) -> dict[str, Any]:
        """Counters and the windows of finished episodes, for a checkpoint."""
        return {"counters": asdict(self.counters), "episodes": self._aggregate.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.counters = Counters(**state["counters"])
        self._aggregate.load_state_dict(state["episodes"])
        self._began = time.monotonic() - self.counters.elapsed
        self._last_row = (time.monotonic(), self.counters.steps)
        self._versions = dict.fromkeys(self._versions, self.counters.update)
        self.reason = self._exhausted()

    def receive(self, report: Report) -> None:
        """Take in what one poll did. An update is over when every policy has its new version: then write, save and judge."""
        self._aggregate.add(self._labelled(report))
        if report.version is not None:
            self._versions[report.policy] = report.version
            self.counters.steps = max(self.counters.steps, report.trained_steps)
        if min(self._versions.values()) > self.counters.update:
            self._finish_update()
        else:
            self.reason = self.reason or self._late()

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
        self.counters.elapsed = time.monotonic() - self._began
        self.reason = self._over()
        if self.reason is not None or self.counters.update % self._experiment.log.every == 0:
            self._write_row()
        if self.reason is None and time.monotonic() - self._saved >= self._experiment.checkpoint.every:
            self.save()

    def save(self) -> None:
        """Write a checkpoint now."""
        self._save()
        self._saved = time.monotonic()

    def stop(self, reason: str) -> None:
        """End the run from outside: a signal, an order."""
        self.reason = self.reason or reason

    def restarted(self, worker: str, cause: str) -> None:
        """A worker died and was started again: counted, and said aloud."""
        self._aggregate.add(Report(metrics={"rollout/restarts": Total(1)}))
        self._note(f"{worker} was started again: {cause}")

    # ------------------------------------------------------------ stop rules

    def _over(self) -> str | None:
        stop = self._experiment.stop
        if stop.return_ is not None and self._reached(stop.return_):
            assert self.confirmed is not None
            played = f"greedy mean {self.confirmed.mean:.1f} over {len(self.confirmed.returns)} episodes"
            return f"stop.return = {stop.return_:g} reached: {played}"
        return self._exhausted()

    def _exhausted(self) -> str | None:
        stop, counters = self._experiment.stop, self.counters
        if stop.steps is not None and counters.steps >= stop.steps:
            return f"stop.steps = {stop.steps:,} reached"
        if stop.updates is not None and counters.update >= stop.updates:
            return f"stop.updates = {stop.updates:,} reached"
        return self._late()

    def _late(self) -> str | None:
        seconds = self._experiment.stop.seconds
        return f"stop.seconds = {seconds:g} reached" if time.monotonic() - self._began >= seconds else None

    def _reached(self, goal: float) -> bool:
        """Training says so, and greedy episodes agree; if not, as many new training episodes must pass first."""
        recent = self._aggregate.recent_return(RECENT_EPISODES)
        if recent is None or recent < goal:
            return False
        self.confirmed = self._confirm()
        passed = self.confirmed.mean >= goal
        verdict = "reached" if passed else "not yet"
        self._note(
            f"{self.counters.steps:,} steps: training return {recent:.1f}, greedy mean of "
            f"{len(self.confirmed.returns)} episodes {self.confirmed.mean:.1f} against {goal:g}: {verdict}"
        )
        self._aggregate.forget_recent()
        return passed

    # ------------------------------------------------------------ rows

    def _write_row(self) -> None:
        now = time.monotonic()
        then, steps = self._last_row
        self._last_row = (now, self.counters.steps)
        extra: dict[str, float] = {
            "time/fps": (self.counters.steps - steps) / max(now - then, 1e-9),
            "time/elapsed": now - self._began,
        }
        if self.confirmed is not None:
            extra["eval/mean_reward"] = self.confirmed.mean
            extra["eval/std_reward"] = self.confirmed.std
        self._sink.write(self._aggregate.row(self.counters.steps, self.counters.update, extra))
