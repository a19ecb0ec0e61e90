"""Small gymnasium environments for the tests of the adapters. Also a user's module, for the tests of `module:factory` ids."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from shoal.envs.toys.single_agent import Cut


class Counting(gymnasium.Env):
    """Observes how many steps it took, earns 1, 2, 3, ...; terminates after `length`, is truncated after `limit` steps.

    Keeps the seeds of its resets and the actions it was given. With `reuse` it hands out one array again and again.
    """

    def __init__(self, length: int = 3, limit: int = 10**9, *, reuse: bool = False, action_space: Any = None) -> None:
        self.observation_space = Box(0.0, 100.0, (2,), np.float32)
        self.action_space = action_space or Discrete(2)
        self.length, self.limit = length, limit
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self.closed = False
        self._buffer = np.zeros(2, np.float32) if reuse else None

    def _see(self) -> np.ndarray:
        if self._buffer is None:
            return np.full(2, self.time, np.float32)
        self._buffer[:] = self.time
        return self._buffer

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        self.time += 1
        info = {"metrics": {"doubled": 2 * self.time}}
        return self._see(), self.time, self.time >= self.length, self.time >= self.limit, info

    def close(self) -> None:
        self.closed = True


class Drawing(gymnasium.Env):
    """Observations drawn from any space; episodes of `length` steps. Keeps what it showed last, and actions."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(
        self, observation_space: Any, action_space: Any = None, length: int = 4, render_mode: str | None = None
    ) -> None:
        self.observation_space = deepcopy(observation_space)
        self.action_space = action_space or Discrete(2)
        self.length, self.render_mode = length, render_mode
        self.actions: list[Any] = []

    def _see(self) -> Any:
        self.shown = self.observation_space.sample()
        return self.shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        self.time += 1
        return self._see(), float(self.np_random.random()), False, self.time >= self.length, {}

    def render(self) -> Any:
        return np.zeros((4, 5, 3), np.uint8)


class Hinting(gymnasium.Env):
    """Gives the mask `masks[time]` in `info`; None: none in that step. Episodes as long as the list."""

    def __init__(self, masks: list[Any], action_space: Any) -> None:
        self.observation_space, self.action_space = Discrete(100), action_space
        self._masks = masks

    def _info(self) -> dict[str, Any]:
        mask = self._masks[self.time]
        return {} if mask is None else {"action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = 0
        return self.time, self._info()

    def step(self, action: Any) -> Any:
        self.time += 1
        return self.time, 0.0, self.time == len(self._masks) - 1, False, self._info()


def make_counting(length: int = 3) -> gymnasium.Env:
    return Counting(length)


def make_cut(num_envs: int, length: int = 5) -> Cut:
    return Cut(num_envs, length=length)


def make_vector(num_envs: int) -> VectorEnv:
    return SyncVectorEnv([Counting] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def make_cut_in_secret(**kwargs: Any) -> Cut:
    return Cut(2, **kwargs)


def make_nothing() -> None:
    return None


class Shifted(gymnasium.ObservationWrapper):
    """Adds 1 to every observation."""

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation + np.float32(1)


class Doubled(gymnasium.ObservationWrapper):
    """Doubles every observation."""

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation * np.float32(2)


NOT_CALLABLE = 3

if "Sample/Counting-v0" not in gymnasium.registry:
    gymnasium.register("Sample/Counting-v0", entry_point=Counting)
