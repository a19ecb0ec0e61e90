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
        return ended(folder)


def population_of(run: str) -> tuple[PopulationFolder, str] | None:
    """The population that is meant, or the one around the run that is meant, and the member: empty for the whole."""
    from shoal.population.folder import PopulationFolder

    for path in (Path(run), DEFAULT_ROOT / run):
        for folder, member in ((PopulationFolder(path), ""), (PopulationFolder(path.parent), path.name)):
            if folder.exists:
                return folder, member
    return None
