"""One copy of a PettingZoo game, in either of its two forms, or of RLlib's, told as Scenes: what came of it, and who acts now.

Actions by agent go in. Game-independent: who lives, who ended and why, who was born, is worked out here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel_wrapper

from shoal.api.env import Array, Tree
from shoal.base.tree import tree_map
from shoal.envs.rllib_game import RllibGame

Agent = Any
"""PettingZoo's name of an agent: mostly a word."""
ALL = "__all__"
"""RLlib's name for all agents together, in flags."""
SILENT = 1_000
"""Steps in a row in which nobody acts, after which nobody ever will."""


class End(NamedTuple):
    """How an agent's part in the episode ended."""

    terminated: bool
    truncated: bool
    observation: Tree | None
    """What it saw last; None: the game does not say."""
    info: dict[str, Any]


@dataclass(slots=True)
class Scene:
    """What `reset` or the last actions led to."""

    acting: list[Agent]
    """Who must act now; nobody: the episode is over."""
    seen: dict[Agent, Tree]
    """New observations, of those who act at least."""
    infos: Mapping[Agent, dict[str, Any]]
    rewards: Mapping[Agent, float] = field(default_factory=dict)
    ends: dict[Agent, End] = field(default_factory=dict)
    """Agents that ended in this very step."""


class Copy(ABC):
    """One game that is being played."""

    env: Any

    def __init__(self) -> None:
        self._live: list[Agent] = []
        self._has_state: bool | None = None

    @abstractmethod
    def reset(self, seed: int) -> Scene:
        """Begin an episode."""

    @abstractmethod
    def step(self, action_of: Callable[[Agent], Any]) -> Scene:
        """Go on; `action_of` gives the action of an agent."""

    @abstractmethod
    def last_seen(self, agent: Agent, scene: Scene) -> Tree | None:
        """What an agent that lives sees in `scene`, which is that of now."""

    def cut_off(self, scene: Scene) -> Scene:
        """The same, as the last of its episode: everybody who lives is truncated."""
        ends = {
            agent: End(False, True, self.last_seen(agent, scene), scene.infos.get(agent) or {}) for agent in self._live
        }
        return Scene([], {}, scene.infos, scene.rewards, scene.ends | ends)

    def state(self) -> Array | None:
        """The game's global state; None: it has none."""
        if self._has_state is None:  # a game may use the word for something else
            self._has_state = callable(getattr(self.env.unwrapped, "state", None))
        if not self._has_state:
            return None
        try:
            return np.asarray(self.env.state())
        except NotImplementedError:
            return None


class ParallelCopy(Copy):
    """A ParallelEnv: all living agents act at once."""

    def __init__(self, env: ParallelEnv) -> None:
        super().__init__()
        self.env = env
        if isinstance(env, aec_to_parallel_wrapper):
            # It looks at every agent twice a step and throws the first look away: half the time of a game with images.
            env.aec_env.last = lambda observe=True: (None, 0.0, False, False, {})

    def reset(self, seed: int) -> Scene:
        seen, infos = self.env.reset(seed=seed)
        self._live = list(self.env.agents)
        return Scene(self._live, {agent: _given(seen, agent) for agent in self._live}, infos)

    def step(self, action_of: Callable[[Agent], Any]) -> Scene:
        actions = {agent: action_of(agent) for agent in self._live}
        seen, rewards, terminated, truncated, infos = self.env.step(actions)
        agents, ends = self.env.agents, {}
        if agents == self._live and not (any(terminated.values()) or any(truncated.values())):
            return Scene(self._live, {agent: _given(seen, agent) for agent in agents}, infos, rewards)
        for agent in self._live:
            if terminated.get(agent) or truncated.get(agent):
                flags = bool(terminated.get(agent)), bool(truncated.get(agent))
                ends[agent] = End(*flags, seen.get(agent), infos.get(agent) or {})
            elif agent not in agents:
                raise _lost(agent)
        self._live = [a for a in agents if not (terminated.get(a) or truncated.get(a))]
        return Scene(self._live, {agent: _given(seen, agent) for agent in self._live}, infos, rewards, ends)

    def last_seen(self, agent: Agent, scene: Scene) -> Tree | None:
        return scene.seen[agent]


class AECCopy(Copy):
    """An AECEnv: one agent acts at a time. The steps that PettingZoo asks of dead agents are made in here.

    Attributes are read once: each look goes through all the wrappers of a game.
    """

    def __init__(self, env: AECEnv) -> None:
        super().__init__()
        self.env = env
        self._turn: Agent = None

    def reset(self, seed: int) -> Scene:
        self.env.reset(seed=seed)
        self._live = list(self.env.agents)
        # A game may hand out one array again and again, so all but the last look are copied.
        return self._scene({agent: _copy(self.env.observe(agent)) for agent in self._live}, {}, {})

    def step(self, action_of: Callable[[Agent], Any]) -> Scene:
        env = self.env
        env.step(action_of(self._turn))
        rewards = dict(env.rewards)  # before dead steps, which clear them
        ends = self._ends()
        while (left := len(env.agents)) and env.agent_selection not in self._live:
            env.step(None)
            if len(env.agents) == left:
                raise ValueError("step(None) left the dead agent in `agents`: call self._was_dead_step in step")
            ends |= self._ends()
        return self._scene({}, rewards, ends)

    def last_seen(self, agent: Agent, scene: Scene) -> Tree | None:
        return _copy(self.env.observe(agent))

    def _scene(self, seen: dict[Agent, Tree], rewards: dict[Agent, float], ends: dict[Agent, End]) -> Scene:
        if not self._live:
            return Scene([], {}, {}, rewards, ends)
        self._turn = agent = self.env.agent_selection
        seen[agent] = self.env.observe(agent)
        return Scene([agent], seen, self.env.infos, rewards, ends)

    def _ends(self) -> dict[Agent, End]:
        """Who of the living is marked as dead now. Sets who lives on."""
        env, ends = self.env, {}
        agents, terminated, truncated = env.agents, env.terminations, env.truncations
        for agent in self._live:
            if terminated.get(agent) or truncated.get(agent):
                flags = bool(terminated[agent]), bool(truncated[agent])
                ends[agent] = End(*flags, _copy(env.observe(agent)), env.infos.get(agent) or {})
            elif agent not in agents:
                raise _lost(agent)
        self._live = [agent for agent in agents if not (terminated.get(agent) or truncated.get(agent))]
        return ends


class RllibCopy(Copy):
    """A MultiAgentEnv of RLlib: whoever has an observation acts, `__all__` ends the episode for all who are left."""

    def __init__(self, env: RllibGame) -> None:
        super().__init__()
        self.env, self._game = env, env.env
        self._acting: list[Agent] = []

    def reset(self, seed: int) -> Scene:
        seen, infos = self._game.reset(seed=seed)
        self._acting, self._live = list(seen), list(seen)
        return Scene(self._acting, dict(seen), infos or {})

    def step(self, action_of: Callable[[Agent], Any]) -> Scene:
        actions = {agent: action_of(agent) for agent in self._acting}
        earned: dict[Agent, float] = {}
        ends: dict[Agent, End] = {}
        for _ in range(SILENT):
            seen, rewards, terminated, truncated, infos = self._game.step(actions)
            for agent, reward in rewards.items():
                earned[agent] = earned.get(agent, 0.0) + float(reward)
            self._live += [agent for agent in seen if agent not in self._live and agent not in ends]
            ends |= self._ends(seen, terminated, truncated, infos or {})
            self._live = [agent for agent in self._live if agent not in ends]
            self._acting = [agent for agent in seen if agent in self._live]
            if self._acting or terminated.get(ALL) or truncated.get(ALL):
                return Scene(self._acting, {agent: seen[agent] for agent in self._acting}, infos or {}, earned, ends)
            actions = {}
        raise ValueError(f"nobody has had an observation for {SILENT} steps, and '{ALL}' has not come")

    def last_seen(self, agent: Agent, scene: Scene) -> Tree | None:
        return scene.seen.get(agent)

    def _ends(self, seen: Any, terminated: Any, truncated: Any, infos: Any) -> dict[Agent, End]:
        over, late = bool(terminated.get(ALL)), bool(truncated.get(ALL))
        ends = {}
        for agent in self._live:
            flags = bool(terminated.get(agent)), bool(truncated.get(agent))
            if any(flags) or over or late:
                flags = flags if any(flags) else (over, late)
                ends[agent] = End(*flags, seen.get(agent), infos.get(agent) or {})
        return ends


def copy_of(game: ParallelEnv | AECEnv | RllibGame) -> Copy:
    """By its form."""
    if isinstance(game, RllibGame):
        return RllibCopy(game)
    return AECCopy(game) if isinstance(game, AECEnv) else ParallelCopy(game)


def _lost(agent: Agent) -> ValueError:
    return ValueError(f"agent '{agent}' left `agents` and was neither terminated nor truncated")


def _given(seen: Mapping[Agent, Tree], agent: Agent) -> Tree:
    if agent not in seen:
        raise ValueError(f"agent '{agent}' is in `agents` and has no observation")
    return seen[agent]


def _copy(observation: Tree) -> Tree:
    return tree_map(np.array, observation)
