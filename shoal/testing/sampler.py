"""Random play: actions drawn within the masks, from a seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from shoal.api.env import AgentGroup, Array, Step
from shoal.base.seeding import generator


class ActionSampler:
    """Draws legal actions for every copy and agent. Equal seeds and equal masks give equal actions."""

    def __init__(self, groups: dict[str, AgentGroup], num_envs: int, seed: int) -> None:
        self._groups, self._num_envs = groups, num_envs
        self._random = generator(seed, "sampler")

    def sample(self, step: Step) -> dict[str, Array]:
        """Group -> `[num_envs, agents, ...]`, an answer to `step`."""
        actions = {}
        for name, group in self._groups.items():
            shape = (self._num_envs, len(group.agents))
            turn = step.turns.get(name)
            actions[name] = self._draw(group.action_space, shape, None if turn is None else turn.action_mask)
        return actions

    def _draw(self, space: Space[Any], shape: tuple[int, int], mask: Array | None) -> Array:
        if isinstance(space, Discrete):
            return self._choose(int(space.n), shape, mask)
        if isinstance(space, MultiDiscrete):
            return self._choose_each(space, shape, mask)
        if isinstance(space, MultiBinary):
            return self._random.integers(0, 2, (*shape, *space.shape)).astype(space.dtype)
        if isinstance(space, Box):
            return self._uniform(space, shape)
        raise TypeError(f"no policy acts in {space}")

    def _choose(self, count: int, shape: tuple[int, ...], mask: Array | None) -> Array:
        wishes = self._random.random((*shape, count))
        if mask is not None and mask.shape == wishes.shape:
            wishes = np.where(mask, wishes, -1.0)
        return wishes.argmax(axis=-1)

    def _choose_each(self, space: MultiDiscrete[Any], shape: tuple[int, int], mask: Array | None) -> Array:
        counts = space.nvec.ravel()
        stops = np.cumsum(counts)
        if mask is not None and mask.shape != (*shape, stops[-1]):
            mask = None
        parts = [
            self._choose(int(count), shape, None if mask is None else mask[..., stop - count : stop])
            for count, stop in zip(counts, stops, strict=True)
        ]
        return np.stack(parts, axis=-1).reshape(*shape, *space.nvec.shape).astype(space.dtype)

    def _uniform(self, space: Box, shape: tuple[int, int]) -> Array:
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        low, high = (
            np.where(np.isfinite(low), low, np.minimum(-1.0, high - 1.0)),
            np.where(np.isfinite(high), high, np.maximum(1.0, low + 1.0)),
        )
        share = self._random.random((*shape, math.prod(space.shape))).reshape(*shape, *space.shape)
        return (low + share * (high - low)).astype(space.dtype)
