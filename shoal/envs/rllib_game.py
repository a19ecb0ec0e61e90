"""Environments of RLlib, classes of its `MultiAgentEnv`, played like PettingZoo's games. Nothing of RLlib is imported.

Whoever has an observation acts next. An agent's flags end it, `__all__` ends the episode for all who are left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from gymnasium import Space, spaces

from shoal.base.errors import InputError

LOG = logging.getLogger("shoal")
Agent = Any


class RllibGame:
    """One environment, with agents and spaces where PettingZoo has them."""

    def __init__(self, env: Any, name: str) -> None:
        _say_once(name)
        self.env, self._name = env, name
        self.possible_agents = _agents_of(env, name)
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self.render, self.close = env.render, env.close

    @property
    def unwrapped(self) -> Any:
        """The environment itself."""
        return self.env

    def observation_space(self, agent: Agent) -> Space[Any]:
        """Of one agent."""
        return self._space("observation_space", agent)

    def action_space(self, agent: Agent) -> Space[Any]:
        """Of one agent."""
        return self._space("action_space", agent)

    def _space(self, which: str, agent: Agent) -> Space[Any]:
        """By agent, in one of the two places that RLlib has had for it, or one for all."""
        for place in (f"{which}s", which):
            found = getattr(self.env, place, None)
            by_agent = found.spaces if isinstance(found, spaces.Dict) else found
            if isinstance(by_agent, Mapping) and agent in by_agent:
                return by_agent[agent]
            if isinstance(found, Space):
                return found
        raise InputError(f"env.id = '{self._name}' has no {which} of agent '{agent}': set {which}s in __init__")


@cache
def _say_once(name: str) -> None:
    LOG.info("env.id = '%s' is an environment of RLlib: whoever has an observation acts", name)


def is_rllib(env: Any) -> bool:
    """Whether its class is one of RLlib's."""
    bases = type(env).__mro__
    return any(base.__name__ == "MultiAgentEnv" and base.__module__.startswith("ray.rllib") for base in bases)


def _agents_of(env: Any, name: str) -> list[Agent]:
    """Everybody who may ever play: RLlib has said so in several ways."""
    found: Iterable[Agent] | None = getattr(env, "possible_agents", None) or getattr(env, "agents", None)
    for place in ("observation_spaces", "observation_space"):
        parts = getattr(env, place, None)
        if not found and isinstance(parts, Mapping | spaces.Dict):
            found = list(parts.keys())
    if not found:
        raise InputError(f"env.id = '{name}' has no possible_agents: list everybody who may play, also later")
    return list(found)
