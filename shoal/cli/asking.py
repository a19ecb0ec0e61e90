"""How the commands for live runs reach them: by the panel in the run folder, or, from another machine, through the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.monitoring.run_folder import DEFAULT_ROOT, RunFolder
from shoal.runs.panel import NotRunningError
from shoal.runs.status import ended, obey

if TYPE_CHECKING:
    from shoal.population.folder import PopulationFolder


def tell(folder: RunFolder, order: str) -> dict[str, Any]:
    """Give an order, wherever the run lives."""
    try:
        return obey(folder, order)
    except NotRunningError:
        if not (folder.path / "cluster.json").is_file() or ended(folder)["reason"] is not None:
            raise
        from shoal.launchers.ray.cluster import require_ray

        require_ray()
        from shoal.runs.ray.driver import tell as tell_through_ray

        return tell_through_ray(folder, order)


def status(folder: RunFolder) -> dict[str, Any]:
    """What a live run says of itself, or what an ended one left."""
    try:
        return tell(folder, "status")
    except NotRunningError:
        return {**ended(folder), **_in_a_slot(folder)}


def _in_a_slot(folder: RunFolder) -> dict[str, Any]:
    """What a population says of a member that is trained on another machine; empty: nobody trains it there."""
    from shoal.population.folder import PopulationFolder

    population = PopulationFolder.around(folder)
    try:
        members = [] if population is None else obey(RunFolder(population.path), "status")["members"]
    except NotRunningError:
        return {}
    found = next((each for each in members if each["member"] == folder.trial and each.get("node")), None)
    if found is None:
        return {}
    known = {"step": found.get("steps"), "update": found.get("version"), "return": found.get("return")}
    return {**known, "state": "running", "slot": found["slot"], "node": found["node"]}


def population_of(run: str) -> tuple[PopulationFolder, str] | None:
    """The population that is meant, or the one around the run that is meant, and the member: empty for the whole."""
    from shoal.population.folder import PopulationFolder

    for path in (Path(run), DEFAULT_ROOT / run):
        for folder, member in ((PopulationFolder(path), ""), (PopulationFolder(path.parent), path.name)):
            if folder.exists:
                return folder, member
    return None
