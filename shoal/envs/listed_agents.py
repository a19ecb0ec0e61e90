"""Gymnasium environments that give and take tuples with an entry for each agent, as a parallel game."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from pettingzoo import ParallelEnv


class ListedAgents(ParallelEnv):
    """Agents `agent_0`, `agent_1`, ... who begin and end together."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        seen, acts = env.observation_space, env.action_space
        if not (isinstance(seen, spaces.Tuple) and isinstance(acts, spaces.Tuple)):
            raise TypeError(f"it has no tuples of spaces but {type(seen).__name__} and {type(acts).__name__}")
        self.env = env
        self.possible_agents = [f"agent_{i}" for i in range(len(acts.spaces))]
        self.agents: list[str] = []
        self._seen, self._acts = (dict(zip(self.possible_agents, part.spaces, strict=True)) for part in (seen, acts))
        self.metadata = env.metadata
        self.render_mode = env.render_mode

    def observation_space(self, agent: str) -> Space[Any]:
        """Of one agent."""
        return self._seen[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Of one agent."""
        return self._acts[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Everybody is there."""
        seen, info = self.env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._by_agent(seen), {agent: dict(info) for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        """Rewards and flags may be one for all, or one for each."""
        result: Any = self.env.step(tuple(actions[agent] for agent in self.possible_agents))
        seen, rewards, terminated, truncated, info = result
        over = bool(np.all(terminated)), bool(np.all(truncated))
        agents = self.possible_agents
        if any(over):
            self.agents = []
        flags = ({agent: flag for agent in agents} for flag in over)  # noqa: C420
        each = [rewards] * len(agents) if np.ndim(rewards) == 0 else rewards
        earned = {agent: float(reward) for agent, reward in zip(agents, each, strict=True)}
        return self._by_agent(seen), earned, *flags, {agent: dict(info) for agent in agents}

    def render(self) -> Any:
        """Its own image."""
        return self.env.render()

    def close(self) -> None:
        """Close it."""
        self.env.close()

    def _by_agent(self, seen: Any) -> dict[str, Any]:
        return {agent: self._cast(agent, part) for agent, part in zip(self.possible_agents, seen, strict=True)}

    def _cast(self, agent: str, part: Any) -> Any:
        space = self._seen[agent]
        return np.asarray(part, space.dtype) if isinstance(space, spaces.Box) else part
