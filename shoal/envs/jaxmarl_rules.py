"""The environments of JaxMARL by their names: `jaxmarl/MPE_simple_spread_v3`, `jaxmarl/HeuristicEnemySMAX`.

Agents with equal spaces are a group. JaxMARL knows one kind of end: one that comes when an environment's `max_steps` are over is
a truncation here, any other a termination. An agent that is done before the others no longer acts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from shoal.api.env import AgentGroup
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.envs.group_names import agents_by_spaces, group_names
from shoal.envs.jax_env import JaxEnv, JaxRules, View, start_jax
from shoal.envs.native.native_env import ByGroup

PREFIX = "jaxmarl/"
ALL = "__all__"
TEAMS = (
    "MPE_simple_spread",
    "MPE_simple_reference",
    "MPE_simple_speaker_listener",
    "HeuristicEnemySMAX",
    "hanabi",
    "overcooked",
)
"""Environments whose agents earn one reward, by how their names begin."""


def find_jaxmarl(env_id: str) -> Callable[..., JaxEnv]:
    """The function that builds a batch."""
    jaxmarl = import_jaxmarl()
    name = env_id.removeprefix(PREFIX)
    if name not in (known := jaxmarl.registered_envs):
        advice = did_you_mean(env_id, [PREFIX + each for each in known])
        raise InputError(f"env.id = '{env_id}' is not an environment of JaxMARL; {advice}")
    return partial(make_jaxmarl, name)


def import_jaxmarl() -> Any:
    """The package, without what it prints."""
    start_jax()
    with redirect_stdout(StringIO()):
        import jaxmarl
        import jaxmarl.environments
    return jaxmarl


def make_jaxmarl(name: str, num_envs: int, *, first_slot: int = 0, **settings: Any) -> JaxEnv:
    """A batch, with JaxMARL's own settings."""
    return JaxEnv(_rules(name, json.dumps(settings, sort_keys=True)), num_envs, first_slot=first_slot)


@cache
def _rules(name: str, settings: str) -> JaxMarlRules:
    return JaxMarlRules(name, json.loads(settings))


class JaxMarlRules(JaxRules):
    """One environment of JaxMARL."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self._numpy, jaxmarl = start_jax().numpy, import_jaxmarl()
        from jaxmarl.environments.multi_agent_env import MultiAgentEnv

        self._env = env = jaxmarl.make(name, **settings)
        self.shared = name.startswith(TEAMS)
        self._limit = getattr(env, "max_steps", None)
        self._masked = type(env).get_avail_actions is not MultiAgentEnv.get_avail_actions
        kinds = agents_by_spaces(
            (agent, new_space(env.observation_space(agent)), new_space(env.action_space(agent))) for agent in env.agents
        )
        names = group_names(agents for agents, _, _ in kinds)
        self.groups = {
            group: AgentGroup(tuple(agents), seen, acts)
            for group, (agents, seen, acts) in zip(names, kinds, strict=True)
        }

    def begin(self, key: Any) -> tuple[Any, View]:
        seen, state = self._env.reset(key)
        alive = self._by_group(dict.fromkeys(self._env.agents, True), bool)
        nothing = {name: self._numpy.zeros_like(flags) for name, flags in alive.items()}
        reward = self._by_group(dict.fromkeys(self._env.agents, 0.0), np.float32)
        return (state, alive), self._view(seen, state, reward, nothing, nothing, alive)

    def move(self, key: Any, time: Any, memory: Any, actions: ByGroup) -> tuple[Any, View]:
        state, alive = memory
        chosen = {
            agent: actions[name][i] for name, group in self.groups.items() for i, agent in enumerate(group.agents)
        }
        seen, state, rewards, dones, _ = self._env.step_env(key, state, chosen)
        over = dones[ALL]
        late = self._numpy.asarray(False) if self._limit is None else over & (time >= self._limit)
        done = {name: flags | over for name, flags in self._by_group(dones, bool).items()}
        ended = {name: alive[name] & done[name] for name in alive}
        cut = {name: flags & late for name, flags in ended.items()}
        left = {name: alive[name] & ~done[name] for name in alive}
        terminated = {name: flags & ~late for name, flags in ended.items()}
        view = self._view(seen, state, self._by_group(rewards, np.float32), terminated, cut, left)
        return (state, left), view._replace(over=over)

    def _view(
        self, seen: Any, state: Any, reward: ByGroup, terminated: ByGroup, truncated: ByGroup, acting: ByGroup
    ) -> View:
        """Whoever does not act is told nothing: all is allowed."""
        shown = {
            name: self._numpy.stack([seen[agent] for agent in group.agents]).astype(group.observation_space.dtype)
            for name, group in self.groups.items()
        }
        masks: ByGroup = {}
        if self._masked:
            allowed = self._by_group(self._env.get_avail_actions(state), bool)
            masks = {name: mask | ~acting[name][:, None] for name, mask in allowed.items()}
        over = self._numpy.asarray(False)
        beside = [key for key in seen if key not in self._env.agents]  # the global state, where there is one
        return View(shown, reward, terminated, truncated, acting, masks, over, seen[beside[0]] if beside else None)

    def _by_group(self, values: dict[str, Any], dtype: Any) -> ByGroup:
        """From a value per agent to `[agents, ...]`."""
        stack, asarray = self._numpy.stack, self._numpy.asarray
        return {
            name: stack([asarray(values[agent]).astype(dtype) for agent in group.agents])
            for name, group in self.groups.items()
        }


def new_space(space: Any) -> Space[Any]:
    """A space of JaxMARL as gymnasium's, by the name of its class."""
    kind = type(space).__name__
    if kind == "Discrete":
        return spaces.Discrete(int(space.n))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(space.num_categories))
    if kind == "Box":
        dtype = np.dtype(space.dtype)
        wide = np.float32 if dtype.kind == "f" else dtype
        low, high = (np.broadcast_to(np.asarray(bound), space.shape).astype(wide) for bound in (space.low, space.high))
        return spaces.Box(low, high, tuple(space.shape), wide)
    raise TypeError(f"there is no space of gymnasium's for {kind}")
