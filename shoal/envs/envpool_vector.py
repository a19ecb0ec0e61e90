"""Environments of EnvPool by their ids, `envpool/Pong-v5`: all copies in one pool that steps them in threads, outside Python.

`send` hands over the actions and returns, `recv` waits for all copies. A copy that ended is reset in the next call. EnvPool takes
seeds only when a pool is made, so every `reset` makes one. `env.kwargs` goes to EnvPool; `num_threads` is 1 unless it says more.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import envpool
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from shoal.api.env import Array
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.base.table import did_you_mean
from shoal.envs.gymnasium_vector import GymnasiumVector
from shoal.envs.registry import AGENT

PREFIX = "envpool/"
SEEDS = ("seed", "env_seed")


def find_envpool(env_id: str) -> Callable[..., EnvPoolVector]:
    """The function that builds a pool."""
    task = env_id.removeprefix(PREFIX)
    if task not in (known := envpool.list_all_envs()):
        close = difflib.get_close_matches(task, known, n=1)
        advice = did_you_mean(env_id, [PREFIX + close[0]]) if close else "envpool.list_all_envs() names them"
        raise InputError(f"env.id = '{env_id}' is not an environment of EnvPool; {advice}")
    return partial(make_pool, task)


def make_pool(task: str, num_envs: int, *, first_slot: int = 0, render: bool = False, **settings: Any) -> EnvPoolVector:
    """A pool of so many copies, with EnvPool's own settings."""
    for key in SEEDS:
        if key in settings:
            raise InputError(f"env.kwargs.{key}: copies are seeded by the experiment's own seed; remove it")
    if settings.get("batch_size", 0) not in (0, num_envs):
        raise InputError(
            f"env.kwargs.batch_size = {settings['batch_size']}: a pool answers for all its copies at once; remove it"
        )
    return EnvPoolVector(Pool(task, num_envs, {"num_threads": 1, **settings}, render), task, first_slot=first_slot)


class Pool(VectorEnv[Any, Any, Any]):
    """EnvPool seen as a vector environment that may be reset with seeds."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": ["rgb_array"]}

    def __init__(self, task: str, num_envs: int, settings: dict[str, Any], render: bool) -> None:
        with without_warnings():
            spec = envpool.make_spec(task, num_envs=num_envs, **settings)
            self.single_observation_space = spec.gymnasium_observation_space
            self.single_action_space = spec.gymnasium_action_space
        self.config = spec.config
        if self.config.max_num_players > 1:
            raise InputError(f"env.id = '{PREFIX}{task}' is for several players, who are not told apart here")
        self.num_envs = num_envs
        by_mujoco = any("mujoco" in base.__module__ for base in type(spec).__mro__)
        draws = render and not by_mujoco  # without OpenGL, MuJoCo's drawing ends the process
        self.render_mode = "rgb_array" if draws else None
        drawn = {"render_mode": "rgb_array"} if draws else {}
        self._make = partial(envpool.make_gymnasium, task, num_envs=num_envs, **settings, **drawn)
        self._everyone = np.arange(num_envs, dtype=np.int32)
        self._pool: Any = None

    @property
    def stacked(self) -> int:
        """How many grey images an observation holds that shift by one a step; where lives end episodes, old ones stay in them."""
        settings = self.config._asdict()
        if not settings.get("gray_scale", False) or settings.get("episodic_life", True):
            return 0
        return int(settings["stack_num"])

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new pool, with a seed for every copy."""
        self.close_extras()
        with without_warnings():
            self._pool = self._make(seed=seed)
            return self._pool.reset()

    def send(self, actions: Array) -> None:
        """The threads begin at once."""
        self._pool.send(actions, self._everyone)

    def recv(self) -> tuple[Any, ...]:
        """Waits for all copies."""
        return self._pool.recv()

    def render(self) -> Any:
        """Images of all copies, by the environment's own drawing."""
        return None if self._pool is None else self._pool.render(self._everyone)

    def close_extras(self, **kwargs: Any) -> None:
        """Its threads end with it."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


@contextmanager
def without_warnings() -> Iterator[None]:
    """EnvPool's bounds of float64 for arrays of float32 are of no consequence."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*precision lowered by casting", UserWarning)
        yield


class EnvPoolVector(GymnasiumVector):
    """A `Pool`. Copies are seeded one by one, so that an episode does not depend on who else is in the batch."""

    _env: Pool

    def __init__(self, env: Pool, task: str, *, first_slot: int = 0) -> None:
        super().__init__(env, PREFIX + task, first_slot=first_slot)
        self.groups = {AGENT: replace(self.groups[AGENT], stacked=env.stacked)}

    def send(self, actions: dict[str, Array]) -> None:
        """The threads begin at once; until `recv` the caller's time is its own."""
        self._call(self._env.send, self._chosen(actions))

    def _answer(self) -> Any:
        return self._call(self._env.recv)

    def _seeds(self, seed: int) -> list[int]:
        slots = range(self._first_slot, self._first_slot + self.num_envs)
        return [derive_seed(seed, "episode", slot, 0) for slot in slots]
