"""Random members of spaces, random masks and random requests: what the suites feed to policies and algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import Tensor

from shoal.api.env import AgentGroup, Array
from shoal.api.policy import Policy, Request
from shoal.base.tree import Tree, tree_map

Knobs = Callable[[int], Tensor]
"""Rows -> float32 `[rows, len(policy.knobs)]`, as an Explorer sets them."""


def draw(space: Space[Any], shape: tuple[int, ...], random: np.random.Generator) -> Tree:
    """Members of `space`, as arrays `[*shape, ...]`."""
    match space:
        case Dict():
            return {key: draw(part, shape, random) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(draw(part, shape, random) for part in space.spaces)
        case Box():
            return _draw_box(space, shape, random)
        case Discrete():
            return (space.start + random.integers(space.n, size=shape)).astype(space.dtype)
        case MultiDiscrete():
            return (space.start + random.integers(space.nvec, size=(*shape, *space.shape))).astype(space.dtype)
        case MultiBinary():
            return random.integers(2, size=(*shape, *space.shape)).astype(space.dtype)
    raise TypeError(f"there are no examples of {space}")


def _draw_box(space: Box, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    size = (*shape, *space.shape)
    if not np.issubdtype(space.dtype, np.floating):
        low, high = space.low.astype(np.int64), space.high.astype(np.int64)
        return random.integers(low, high, size, endpoint=True).astype(space.dtype)
    share = random.random(size)
    with np.errstate(invalid="ignore"):  # where a bound is infinite, the other branch is taken
        inside = space.low + share * (space.high.astype(np.float64) - space.low)
    free = np.clip(random.normal(size=size), space.low, space.high)
    return np.where(space.bounded_below & space.bounded_above, inside, free).astype(space.dtype)


def mask_widths(space: Space[Any]) -> list[int]:
    """The number of actions of each part, as a mask lists them side by side; []: this space has no masks."""
    match space:
        case Discrete():
            return [int(space.n)]
        case MultiDiscrete():
            return [int(count) for count in space.nvec.ravel()]
    return []


def draw_mask(space: Space[Any], shape: tuple[int, ...], random: np.random.Generator) -> Array | None:
    """bool `[*shape, actions]` that allows about half, and at least one action of each part; None: no masks here."""
    parts = []
    for count in mask_widths(space):
        part = random.random((*shape, count)) < 0.5
        np.put_along_axis(part, random.integers(count, size=(*shape, 1)), True, axis=-1)
        parts.append(part)
    return np.concatenate(parts, axis=-1) if parts else None


def draw_request(
    policy: Policy, group: AgentGroup, rows: int, *, seed: int = 0, masked: bool = False, knobs: Knobs | None = None
) -> Request:
    """Decisions that are due at the start of episodes."""
    random = np.random.default_rng(seed)
    mask = draw_mask(group.action_space, (rows,), random) if masked else None
    return Request(
        observation=tree_map(torch.from_numpy, draw(group.observation_space, (rows,), random)),
        first=torch.ones(rows, dtype=torch.bool),
        noise=torch.from_numpy(random.random((rows, policy.noise_size), np.float32)),
        state=policy.initial_state(rows),
        action_mask=None if mask is None else torch.from_numpy(mask),
        knobs=None if knobs is None else knobs(rows),
    )
