"""Environments of the old Gym API, seen as gymnasium's: `reset()` gives an observation alone, `step` four things.

Also such that follow it in part, or have spaces of the old `gym` package. Nothing of that package is imported.
"""

from __future__ import annotations

import inspect
import logging
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

LOG = logging.getLogger("shoal")
TIME_LIMIT = "TimeLimit.truncated"
"""What old time limits write into `info`."""


def follows_old_api(env: Any) -> bool:
    """It has `reset`, `step` and spaces, and is none of gymnasium's, or has a `reset` that takes no seed."""
    parts = all(callable(getattr(env, name, None)) for name in ("reset", "step"))
    if not parts or not all(hasattr(env, name) for name in ("observation_space", "action_space")):
        return False
    return not isinstance(env, gymnasium.Env) or not _takes(env.unwrapped.reset, "seed")


class OldGym(gymnasium.Env[Any, Any]):
    """One environment of the old API. `done` is a termination, unless `info` says that time was up."""

    def __init__(self, env: Any, name: str) -> None:
        _say_once(name)
        self.env = env
        self.observation_space, self.action_space = (
            new_space(getattr(env, which), name) for which in ("observation_space", "action_space")
        )
        self.metadata = dict(getattr(env, "metadata", None) or {})
        modes = self.metadata.get("render_modes") or self.metadata.get("render.modes") or ()
        self.render_mode = "rgb_array" if "rgb_array" in modes else None

    @property
    def unwrapped(self) -> Any:
        """The environment itself: stages and masks are its own."""
        return getattr(self.env, "unwrapped", self.env)

    def has_wrapper_attr(self, name: str) -> bool:
        """What it has of its own counts: `action_masks` for one."""
        return hasattr(self.env, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """The same."""
        return getattr(self.env, name)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """With a seed where it takes one, in either way there is."""
        if _takes(self.env.reset, "seed"):
            result = self.env.reset(seed=seed)
        else:
            if seed is not None and callable(getattr(self.env, "seed", None)):
                self.env.seed(seed % 2**32)
            result = self.env.reset()
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            if isinstance(self.env, gymnasium.Env) and not _takes(self.env.reset, "seed"):
                raise TypeError(
                    "reset() got an unexpected keyword argument 'seed': write reset(self, *, seed=None, options=None)"
                )
            return self._seen(result[0]), result[1]
        return self._seen(result), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Four things or five."""
        result = self.env.step(action)
        if len(result) == 5:
            observation, reward, terminated, truncated, info = result
            return self._seen(observation), reward, bool(terminated), bool(truncated), info or {}
        observation, reward, done, info = result
        info = info or {}
        cut = bool(done) and bool(info.get(TIME_LIMIT, False))
        return self._seen(observation), reward, bool(done) and not cut, cut, info

    def render(self) -> Any:
        """As old environments draw."""
        return self.env.render(mode="rgb_array") if _takes(self.env.render, "mode") else self.env.render()

    def close(self) -> None:
        """Where it can."""
        if callable(getattr(self.env, "close", None)):
            self.env.close()

    def _seen(self, observation: Any) -> Any:
        """Old environments give lists, and floats of 64 bits where the space says 32."""
        space = self.observation_space
        return np.asarray(observation, space.dtype) if isinstance(space, spaces.Box) else observation


@cache
def _say_once(name: str) -> None:
    LOG.info("env.id = '%s' follows the old Gym API: `done` counts as terminated, a time limit as truncated", name)


def new_space(space: Any, name: str) -> Space[Any]:
    """A space of the old package as gymnasium's, by the name of its class."""
    if isinstance(space, Space):
        return space
    kind = type(space).__name__
    if kind == "Box":
        return spaces.Box(space.low, space.high, dtype=space.dtype)
    if kind == "Discrete":
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(space.nvec)
    if kind == "MultiBinary":
        return spaces.MultiBinary(space.n)
    if kind == "Dict":
        return spaces.Dict([(key, new_space(part, name)) for key, part in space.spaces.items()])
    if kind == "Tuple":
        return spaces.Tuple([new_space(part, name) for part in space.spaces])
    raise TypeError(f"there is no space of gymnasium's for {space}")


def _takes(function: Any, parameter: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return parameter in parameters or any(each.kind == each.VAR_KEYWORD for each in parameters.values())
