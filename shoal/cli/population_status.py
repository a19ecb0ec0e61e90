"""What `shoal status` shows of a population."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.cli.output import print_json
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import NotRunningError
from shoal.runs.status import obey

if TYPE_CHECKING:
    from shoal.population.folder import PopulationFolder

MOST = 1000
"""Members in the table."""


def show_population(folder: PopulationFolder, *, json: bool) -> None:
    """Ask it, or read its journal."""
    document = status_of(folder)
    if json:
        print_json(document)
        return
    from rich.console import Console

    from shoal.population.view import table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    print(f"{folder.name} is {document['state']}" + (f": {document['reason']}" if document.get("reason") else ""))
    with console.capture() as capture:
        console.print(table(document, MOST))
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def status_of(folder: PopulationFolder) -> dict[str, Any]:
    """One document, live or ended."""
    try:
        return obey(RunFolder(folder.path), "status")
    except NotRunningError:
        from shoal.population.state import summary

        state = folder.state()
        return {
            "population": folder.name, "state": "not running", "reason": state.reason, "elapsed": state.seconds,
            "steps": state.steps, "core_seconds": state.core_seconds, "budget": {},
            "members": [summary(member) for member in state.members.values()],
        }  # fmt: skip
