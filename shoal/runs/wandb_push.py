"""A run that has ended, sent to Weights & Biases from its folder: rows, films, the table of evaluations."""

from __future__ import annotations

from contextlib import closing

from shoal.base.errors import InputError, ShoalError
from shoal.monitoring.jsonl import newest_first
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.wandb_sink import Tell, WandbSink, wandb_of

PATIENCE = 86_400.0
"""Seconds: whoever sends much waits for it."""


def push(folder: RunFolder, mode: str | None, tell: Tell) -> int:
    """The rows that W&B was given. An id that the run has is kept: W&B passes over what it has of it."""
    if folder.locked:
        raise InputError(f"{folder.name} is being trained: push it when it has ended")
    config, chosen = wandb_of(folder, mode)
    if chosen is None:
        raise InputError("WANDB_MODE = disabled: push with --wandb online, or offline for files to sync later")
    folder.lock()
    try:
        sink = WandbSink(folder, config, chosen, tell, tell, replay=True)
        with closing(sink.companion):
            sink.end(0)
            sink.wait(PATIENCE)
    finally:
        folder.unlock()
    if sink.missing() or not sink.sent:
        raise ShoalError(f"{folder.name}: W&B did not take all of it: {sink.failed}")
    return sum(1 for _ in newest_first(folder.metrics))
