"""Where a single gymnasium environment keeps its action mask, and how it gets into `info`, where the loop reads it.

In `info["action_mask"]` it stays. An `action_mask` in a Dict observation is taken out of it, as of PettingZoo's games; where
there is neither, a method `action_masks()` is asked, as sb3-contrib's MaskablePPO asks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from shoal.envs.spaces import MASK, OBSERVATION, mask_width, split_mask

METHOD = "action_masks"


class MaskInInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Moves the mask of every observation, or of a method, into `info`."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self.observation_space, self.masked, self.bare = split_mask(env.observation_space, env.action_space, name)
        self._method = None if self.masked else method_of(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation without its mask, which is in `info`."""
        return self._moved(*self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """After an end nothing can be chosen: the method is not asked."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, info = self._moved(observation, info, over=terminated or truncated)
        return observation, reward, terminated, truncated, info

    def _moved(self, observation: Any, info: dict[str, Any] | None, over: bool = False) -> tuple[Any, dict[str, Any]]:
        info = info or {}
        if self.masked:
            info = {**info, MASK: observation[MASK]}
            return (observation[OBSERVATION] if self.bare else observation), info
        if self._method is not None and MASK not in info and not over:
            info = {**info, MASK: self._method()}
        return observation, info


def with_mask_in_info(env: gymnasium.Env[Any, Any], name: str) -> gymnasium.Env[Any, Any]:
    """The environment, wrapped if its masks are elsewhere."""
    masked = split_mask(env.observation_space, env.action_space, name)[1]
    return MaskInInfo(env, name) if masked or method_of(env) is not None else env


def method_of(env: gymnasium.Env[Any, Any]) -> Callable[[], Any] | None:
    """`action_masks` of the environment or of a wrapper around it."""
    if not (mask_width(env.action_space) and env.has_wrapper_attr(METHOD)):
        return None
    found = env.get_wrapper_attr(METHOD)
    return found if callable(found) else None
