"""Where a command does its work: on this machine, or on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.base.errors import InputError

if TYPE_CHECKING:
    from shoal.runs.outcome import Cluster


def check_cluster(on: str, cluster: dict[str, Any]) -> None:
    """What belongs to `--on ray` is said with it, and can be done here."""
    if on == "ray":
        from shoal.launchers.ray.cluster import require_ray

        require_ray()
    given = [f"--{name.replace('_', '-')}" for name, value in cluster.items() if value and name != "detach"]
    if given and on != "ray":
        raise InputError(f"{given[0]} is for --on ray")
    if on == "ray" and cluster["detach"] and not cluster["address"]:
        raise InputError("--detach needs --address: a Ray of its own ends with the command")


def cluster_of(on: str, cluster: dict[str, Any]) -> Cluster | None:
    """Where members work, as a command says it; None: on this machine."""
    if on not in ("local", "ray"):
        raise InputError(f"--on {on}: members take turns in slots of this machine (local) or of a cluster (ray)")
    check_cluster(on, cluster)
    if on == "local":
        return None
    from shoal.runs.outcome import Cluster

    return Cluster(cluster["address"], cluster["working_dir"])


def where_words(on: str, cluster: dict[str, Any]) -> str:
    """What a command says to run in the same place again."""
    return f" --on {on}" + (f" --address {cluster['address']}" if cluster["address"] else "") if on != "local" else ""
