"""`shoal wandb-push`."""

from __future__ import annotations

from shoal.cli.output import tell
from shoal.monitoring.run_folder import RunFolder


def run(run: str, *, mode: str | None) -> None:
    """Say where it goes to, and how much of it."""
    from shoal.runs.wandb_push import push

    rows = push(RunFolder.find(run), mode, tell)
    tell(f"{rows:,} rows were handed over")
