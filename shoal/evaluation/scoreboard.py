"""What a controller knows of evaluations: orders, beginnings and results in, columns of rows, events and the best version out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.api.evaluation import Evaluation, Scores
from shoal.evaluation.cost import EvaluationCost

KIND = "evaluation"
"""Of the events that keep results."""


@dataclass(frozen=True)
class Best:
    """The version with the highest mean return so far, against the opponents if there are any; a confirmed one stays the best."""

    version: int
    mean: float
    stage: int = 0
    """Of the curriculum: scores of a later stage count for more, whatever they are."""


class Scoreboard:
    """The evaluations of one run."""

    def __init__(self) -> None:
        self.evaluated = -1
        """The newest version with a score."""
        self.best: Best | None = None
        self.confirmed: Evaluation | None = None
        """Reached the goal of the run, on fresh seeds too."""
        self.cost = EvaluationCost()
        self._missed: set[str] = set()
        self._ordered: list[int] = []
        self._begun = -1
        self._passed_over = 0
        self._results = 0
        self._seconds = 0.0
        self._overtaken = 0
        self._waiting: dict[str, float] = {}

    def order(self, version: int) -> None:
        """A version is due."""
        self._ordered.append(version)

    def begin(self, version: int) -> None:
        """The worker plays it. Those that were due before it and never began are passed over."""
        self.cost.switch(True)
        self._begun = version
        self._overtaken = sum(ordered < version for ordered in self._ordered)
        self._passed_over += self._overtaken
        self._ordered = [ordered for ordered in self._ordered if ordered > version]

    def end(self, evaluation: Evaluation, goal: float | None) -> dict[str, Any]:
        """Take a result; the event that keeps it. `best` in it: whether it is the best so far."""
        self.cost.switch(False)
        self._results += 1
        self._seconds += evaluation.seconds
        self.evaluated = max(self.evaluated, evaluation.version)
        confirmation = evaluation.confirmation
        if confirmation is not None and goal is not None and confirmation.mean >= goal:
            self.confirmed = evaluation
        mean = evaluation.scores.mean
        better = self.best is None or (evaluation.stage, mean) > (self.best.stage, self.best.mean)
        tells = math.isfinite(mean) and not evaluation.scores.cancels
        best = tells and (self.confirmed is not None or better)
        if best:
            self.best = Best(evaluation.version, mean, evaluation.stage)
        fields = {"version": evaluation.version, "steps": evaluation.steps, "stage": evaluation.stage}
        fields |= _facts(evaluation.scores)
        self._waiting = {f"eval/{name}": number for name, number in _flat(fields).items()}
        self._waiting |= {"eval/seconds": evaluation.seconds, "eval/passed_over": self._overtaken}
        return {
            **fields, "seconds": evaluation.seconds, "passed_over": self._overtaken, "best": best,
            "returns": evaluation.scores.returns, "lengths": evaluation.scores.lengths,
            "confirmation": None if confirmation is None else _facts(confirmation), "video": evaluation.video,
        }  # fmt: skip

    def missed(self, declared: Iterable[str], scores: Scores) -> list[str]:
        """A line for each name of the environment's numbers that nothing held: it may be misspelt. Said once."""
        names = [name for name in declared if name not in scores.metrics and name not in self._missed]
        self._missed.update(names)
        episodes = len(scores.returns)
        return [f"evaluation.metrics.{name}: no info held '{name}' in {episodes} episodes" for name in names]

    def doubts(self, scores: Scores) -> list[str]:
        """A line for each reason why scores say less than it seems. Said once."""
        alone = "everyone is played by the same version and the returns cancel out: name opponents, evaluation.against: [random]"
        again = (
            "equal players play one and the same episode again and again, nothing is random: set evaluation.openings: 4"
        )
        lines = {f"evaluation: {alone}": scores.cancels, f"evaluation: {again}": scores.repeated}
        new = [line for line, holds in lines.items() if holds and line not in self._missed]
        self._missed.update(new)
        return new

    def columns(self) -> dict[str, float]:
        """The newest result for the next row, once."""
        columns, self._waiting = self._waiting, {}
        return columns

    @property
    def evaluating(self) -> int | None:
        """The version that is being played; None: there is none."""
        return self._begun if self._begun > self.evaluated else None

    @property
    def newest(self) -> int | None:
        """The newest version with a score; None: there is none yet."""
        return self.evaluated if self.evaluated >= 0 else None

    @property
    def due(self) -> int:
        """The newest version that was ordered, whether it was evaluated or not."""
        return max([self.evaluated, self._begun, *self._ordered])

    @property
    def untold(self) -> bool:
        """A result waits for its row."""
        return bool(self._waiting)

    def line(self) -> str | None:
        """What it cost, for people; None: nothing was evaluated."""
        return self.cost.line(self._results, self._seconds, self._passed_over) if self._results else None

    def recall(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Go on from what the run's events tell. What a resumed run went back behind does not count."""
        kept: list[Mapping[str, Any]] = []
        for event in events:
            if event["kind"] == "start":
                kept = [result for result in kept if result["version"] <= event["version"]]
            elif event["kind"] == KIND:
                kept.append(event)
        self.evaluated = max((event["version"] for event in kept), default=-1)
        for event in kept:
            if event["best"] and event["mean_reward"] is not None:
                self.best = Best(event["version"], event["mean_reward"], event.get("stage", 0))


def columns_of(scores: Scores) -> dict[str, float]:
    """The scores as columns of a row, by the names that training gives them."""
    return {f"eval/{name}": value for name, value in _flat(_facts(scores)).items()}


def _facts(scores: Scores) -> dict[str, Any]:
    low, high = scores.interval
    facts: dict[str, Any] = {
        "episodes": len(scores.returns), "mean_reward": scores.mean, "std_reward": scores.std, "ci_low": low,
        "ci_high": high, "length": scores.length, "metrics": scores.metrics,
    }  # fmt: skip
    if scores.game is not None:
        facts |= {"game_return": scores.game, "policies": scores.by_policy}
    if scores.matches:
        facts["against"] = {opponent: tally.facts() for opponent, tally in scores.tallies.items()}
    return facts


def _flat(facts: dict[str, Any]) -> dict[str, float]:
    """As columns: `metrics/<name>`, `<policy>/agent_return`, `against/<opponent>/<name>`."""
    numbers = {name: value for name, value in facts.items() if not isinstance(value, dict)}
    numbers |= {f"metrics/{name}": value for name, value in facts["metrics"].items()}
    for opponent, tally in facts.get("against", {}).items():
        numbers |= {f"against/{opponent}/{name}": value for name, value in tally.items()}
    return numbers | {f"{name}/agent_return": value for name, value in facts.get("policies", {}).items()}
