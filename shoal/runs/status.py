"""The status of a run as one document: a live one answers for itself, an ended one is summed up from its folder."""

from __future__ import annotations

from typing import Any

from shoal.base.errors import ShoalError
from shoal.monitoring.jsonl import newest_first
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import NotRunningError, ask


def obey(folder: RunFolder, order: str) -> dict[str, Any]:
    """Give a live run an order; what it refuses is an error."""
    try:
        document = ask(folder, order)
    except NotRunningError:
        if folder.locked and ended(folder)["reason"] is None:
            raise ShoalError(
                f"{folder.name} is being trained by process {folder.owner} and cannot be asked, as {folder.control.name} is gone "
                f"from its folder: `kill -INT {folder.owner}` ends it with a checkpoint"
            ) from None
        raise
    if "error" in document:
        raise ShoalError(f"{folder.name}: {document['error']}")
    return document


def ended(folder: RunFolder) -> dict[str, Any]:
    """What the last row of numbers and the last stop say. `reason` is None where a crash left no time to say it."""
    row = next(newest_first(folder.metrics), {})
    last, evaluated = _newest(folder, "start", "stop"), _newest(folder, "evaluation")
    stop = last if last.get("kind") == "stop" else {}
    return {
        "run": folder.name,
        "state": "ended",
        "reason": stop.get("reason"),
        "ended": stop.get("time"),
        "step": stop.get("steps", row.get("step")),
        "update": stop.get("update", row.get("update")),
        "elapsed": stop.get("elapsed", row.get("time/elapsed")),
        "return": row.get("rollout/ep_rew_mean"),
        "score": row.get("eval/mean_reward", evaluated.get("mean_reward")),
    }


def _newest(folder: RunFolder, *kinds: str) -> dict[str, Any]:
    """The last event of these kinds; empty where there is none."""
    return next((event for event in newest_first(folder.events) if event.get("kind") in kinds), {})
