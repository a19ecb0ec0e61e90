"""`shoal pause`, `unpause` and `stop`."""

from __future__ import annotations

from shoal.cli.asking import population_of, tell
from shoal.cli.output import command
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.status import obey


def run(run: str, order: str) -> None:
    """Give the order and say what state the run is in. Members of a live population are the population's to tell."""
    if (found := population_of(run)) is not None and (not found[1] or RunFolder(found[0].path).locked):
        population, member = found
        state = obey(RunFolder(population.path), f"{order} {member}".strip())["state"]
        print(f"{f'{population.name}/{member}' if member else population.name} is {state}")
        return
    folder = RunFolder.find(run)
    state = tell(folder, order).get("state", "-")
    hints = {
        "pause": f"go on: {command()} unpause {run}",
        "stop": f"it saves a checkpoint first; go on later: {command()} train ... --trial {folder.trial} --resume",
    }
    hint = hints.get(order)
    print(f"{folder.name} is {state}" + (f"; {hint}" if hint else ""))
