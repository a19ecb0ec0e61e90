"""Families of environments by id, `family/NAME`: the package behind each, and the extra that brings it. Light to import."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

from shoal.base.errors import InputError


class Family(NamedTuple):
    """Environments that live in one package."""

    package: str
    """What is imported for them."""
    extra: str
    """What to install them with: `pip install "shoal[extra]"`."""


REGISTERED = {
    "minigrid": Family("minigrid", "minigrid"),
    "highway": Family("highway_env", "highway"),
    "vizdoom": Family("vizdoom.gymnasium_wrapper", "vizdoom"),
}
"""Packages that register single environments with gymnasium when they are imported."""
BATCHES = {
    "openspiel": (Family("pyspiel", "openspiel"), "shoal.envs.openspiel:find_openspiel"),
    "envpool": (Family("envpool", "envpool"), "shoal.envs.envpool_vector:find_envpool"),
    "jaxmarl": (Family("jaxmarl", "jaxmarl"), "shoal.envs.jaxmarl_rules:find_jaxmarl"),
    "pgx": (Family("pgx", "pgx"), "shoal.envs.pgx_rules:find_pgx"),
}
"""Packages that are made a batch of, and `module:function` that gets an id and gives what builds one."""


def family_of(env_id: str) -> str:
    """What stands before the first slash; empty: the id has none, or names a module."""
    family, slash, _ = env_id.partition("/")
    return family if slash and ":" not in env_id else ""


def require_package(env_id: str, family: Family) -> None:
    """One line with the command, where it is not installed."""
    if not is_there(family.package):
        raise missing(env_id, family.extra)


def is_there(package: str) -> bool:
    """Whether it is installed. Looks inside packages, which imports those around it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


def missing(env_id: str, extra: str) -> InputError:
    """What to say where it is not installed."""
    return InputError(f"env.id = '{env_id}' needs a package that is not installed: pip install \"shoal[{extra}]\"")
