"""How the commands for live runs reach them: by the panel in the run folder, or, from another machine, through the cluster."""

from __future__ import annotations

from typing import Any

from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import NotRunningError
from shoal.runs.status import ended, obey


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
