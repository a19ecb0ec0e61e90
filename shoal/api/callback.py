"""What a program may hear of a run that it started: events in, and a reason to stop out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class UpdateEvent:
    """A row of metrics: one for every `log.every` updates."""

    version: int
    """How many updates there were."""
    steps: int
    """Environment steps so far."""
    metrics: dict[str, float | int | str]
    """The row as `metrics.jsonl` has it."""


@dataclass(frozen=True)
class EvaluationEvent:
    """A version that was evaluated beside training."""

    version: int
    """Which one was evaluated."""
    steps: int
    """Environment steps of training behind the version."""
    mean: float
    """Its score: the mean return."""
    returns: list[float]
    """Of every episode."""
    lengths: list[int]
    """Of every episode, in environment steps."""
    metrics: dict[str, float]
    """The environment's own numbers, as means over the episodes."""
    best: bool
    """None before it scored higher."""


@dataclass(frozen=True)
class CheckpointEvent:
    """A checkpoint that was written."""

    version: int
    """Which one was saved."""
    steps: int
    """Environment steps behind it."""
    path: Path
    """Its folder."""


class Callback:
    """Override what you want to hear of. A text that is returned ends the run, and is its reason; None goes on.

    Methods are called in the process that called `shoal.train`, and the run waits for them. What one raises ends the run in order,
    with a checkpoint, and is then raised by `shoal.train`.
    """

    def on_update(self, event: UpdateEvent) -> str | None:
        """A row of metrics was written."""
        return None

    def on_evaluation(self, event: EvaluationEvent) -> str | None:
        """A version has its score."""
        return None

    def on_checkpoint(self, event: CheckpointEvent) -> str | None:
        """A checkpoint was written."""
        return None
