"""Games of several agents in other packages than PettingZoo's, by ids of their own, as PettingZoo's parallel games.

`mamujoco/Ant_4x2`, `lbforaging/Foraging-8x8-2p-1f-v3`, `rware/rware-tiny-2ag-v2`. Each comes as a function that builds a copy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.base.errors import InputError


class Relative(NamedTuple):
    """Games that live in one package."""

    package: str
    extra: str
    find: Callable[[str], Callable[..., Any]]
    """Name of a game -> what builds a copy."""


def _multi_agent_mujoco(game: str) -> Callable[..., Any]:
    """`Ant_4x2`: a robot, and how its joints are shared out."""
    scenario, _, parts = game.partition("_")
    if not parts:
        raise InputError(f"env.id = 'mamujoco/{game}' does not say how joints are shared out: write mamujoco/Ant_4x2")

    def make(**kwargs: Any) -> Any:
        from gymnasium_robotics import mamujoco_v1

        return mamujoco_v1.parallel_env(scenario=scenario, agent_conf=parts, **kwargs)

    make.metadata = {"render_modes": ["rgb_array"]}  # type: ignore[attr-defined]
    return make


def _listed(package: str) -> Callable[[str], Callable[..., Any]]:
    """Games that gymnasium makes, and that give and take lists with an entry for each agent."""

    def find(game: str) -> Callable[..., Any]:
        def make(**kwargs: Any) -> Any:
            import gymnasium

            from shoal.envs.listed_agents import ListedAgents

            importlib.import_module(package)
            return ListedAgents(gymnasium.make(game, disable_env_checker=True, **kwargs))

        return make

    return find


RELATIVES = {
    "mamujoco": Relative("gymnasium_robotics", "mamujoco", _multi_agent_mujoco),
    "lbforaging": Relative("lbforaging", "lbforaging", _listed("lbforaging")),
    "rware": Relative("rware", "rware", _listed("rware")),
}
