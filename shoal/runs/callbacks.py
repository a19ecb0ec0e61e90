"""Callbacks of the user's: rows, scores and checkpoints in, reasons to stop out. What they raise is kept until the run is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shoal.api.callback import Callback, CheckpointEvent, EvaluationEvent, UpdateEvent
from shoal.monitoring.sinks import Row


class Callbacks:
    """All of a run, in their order. A Sink; `stop` takes the reason to end the run."""

    def __init__(self, callbacks: Sequence[Callback], stop: Callable[[str], None]) -> None:
        self._callbacks, self._stop = callbacks, stop
        self.error: Exception | None = None
        """What one of them raised; nobody is called after that."""

    def write(self, row: Row) -> None:
        """A row of metrics."""
        event = UpdateEvent(int(row["update"]), int(row["step"]), dict(row))
        self._tell("on_update", lambda callback: callback.on_update(event))

    def evaluated(self, result: dict[str, Any]) -> None:
        """A version was evaluated: the event of the run that keeps it."""
        facts = {name: result[name] for name in ("version", "steps", "returns", "lengths", "metrics", "best")}
        event = EvaluationEvent(mean=result["mean_reward"], **facts)
        self._tell("on_evaluation", lambda callback: callback.on_evaluation(event))

    def saved(self, version: int, steps: int, path: Path) -> None:
        """A checkpoint was written."""
        event = CheckpointEvent(version, steps, path)
        self._tell("on_checkpoint", lambda callback: callback.on_checkpoint(event))

    def close(self) -> None:
        """Nothing is held."""

    def _tell(self, method: str, call: Callable[[Callback], str | None]) -> None:
        for callback in self._callbacks:
            if self.error is not None:
                return
            name = f"{type(callback).__name__}.{method}"
            try:
                reason = call(callback)
                if not isinstance(reason, str | None):
                    raise TypeError(
                        f"{name} returned {reason!r}: return None to go on, or a text that says why to stop"
                    )
            except Exception as error:
                self.error, reason = error, f"{type(error).__name__}: {' '.join(str(error).split())}"
            if reason is not None:
                self._stop(f"stopped by {name}: {reason}")
