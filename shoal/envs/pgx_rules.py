"""The games of Pgx by their names: `pgx/connect_four`, `pgx/go_9x9`, `pgx/minatar-breakout`.

Players move in turn, and only whose turn it is acts, within its mask. Observations of true and false are bytes of 0 and 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.envs.jax_env import JaxEnv, JaxRules, View, start_jax
from shoal.envs.native.native_env import ByGroup

PREFIX, GROUP = "pgx/", "player"


def find_pgx(env_id: str) -> Callable[..., JaxEnv]:
    """The function that builds a batch."""
    start_jax()
    import pgx

    name = env_id.removeprefix(PREFIX)
    if name not in (known := pgx.available_envs()):
        advice = did_you_mean(env_id, [PREFIX + each for each in known])
        raise InputError(f"env.id = '{env_id}' is not a game of Pgx; {advice}")
    return partial(make_pgx, name)


def make_pgx(name: str, num_envs: int, *, first_slot: int = 0) -> JaxEnv:
    """A batch. Pgx's games have no settings."""
    return JaxEnv(_rules(name), num_envs, first_slot=first_slot)


@cache
def _rules(name: str) -> PgxRules:
    return PgxRules(name)


class PgxRules(JaxRules):
    """One game; what everyone saw last is remembered beside its state."""

    def __init__(self, name: str) -> None:
        self._jax = jax = start_jax()
        import pgx

        self._env: Any = pgx.make(name)
        self._players = jax.numpy.arange(self._env.num_players)
        shown = jax.eval_shape(self._env.init, jax.random.PRNGKey(0)).observation
        bits = shown.dtype == bool
        space = Box(0, 1, shown.shape, np.int8) if bits else Box(-np.inf, np.inf, shown.shape, np.float32)
        agents = tuple(f"player_{number}" for number in range(self._env.num_players))
        self.groups = {GROUP: AgentGroup(agents, space, Discrete(self._env.num_actions))}

    def begin(self, key: Any) -> tuple[Any, View]:
        state = self._env.init(key)
        with warnings.catch_warnings():  # of its ways to ask what somebody else sees there is none that stays
            warnings.simplefilter("ignore", DeprecationWarning)
            seen = self._jax.vmap(lambda player: self._env.observe(state, player))(self._players)
        return self._remembered(state, seen.astype(self.groups[GROUP].observation_space.dtype))

    def move(self, key: Any, time: Any, memory: Any, actions: ByGroup) -> tuple[Any, View]:
        state, seen = memory
        state = self._env.step(state, actions[GROUP][state.current_player], key)
        return self._remembered(state, seen.at[state.current_player].set(state.observation.astype(seen.dtype)))

    def _remembered(self, state: Any, seen: Any) -> tuple[Any, View]:
        over = state.terminated | state.truncated
        acting = (self._players == state.current_player) & ~over
        everyone = self._jax.numpy.ones_like(acting)
        view = View(
            observation={GROUP: seen},
            reward={GROUP: state.rewards},
            terminated={GROUP: everyone & state.terminated},
            truncated={GROUP: everyone & state.truncated & ~state.terminated},
            acting={GROUP: acting},
            mask={GROUP: state.legal_action_mask[None] | ~acting[:, None]},
            over=over,
        )
        return (state, seen), view
