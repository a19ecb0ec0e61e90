"""`shoal pause`, `unpause` and `stop`."""

from __future__ import annotations

from shoal.cli.asking import tell
from shoal.cli.output import command
from shoal.monitoring.run_folder import RunFolder


def run(run: str, order: str) -> None:
    """Give the order and say what state the run is in."""
    folder = RunFolder.find(run)
    state = tell(folder, order).get("state", "-")
    hints = {
        "pause": f"go on: {command()} unpause {run}",
        "stop": f"it saves a checkpoint first; go on later: {command()} train ... --trial {folder.trial} --resume",
    }
    hint = hints.get(order)
    print(f"{folder.name} is {state}" + (f"; {hint}" if hint else ""))
