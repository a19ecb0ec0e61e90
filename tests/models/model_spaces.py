"""Observation spaces of every kind, and batches of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import Tensor

from shoal.base.tree import Tree

VECTORS: dict[str, Space[Any]] = {
    "box": Box(-1, 1, (5,)),
    "matrix": Box(-1, 1, (2, 3)),
    "double": Box(-1, 1, (4,), np.float64),
    "bytes": Box(0, 255, (6,), np.uint8),
    "discrete": Discrete(4, start=2),
    "multi_discrete": MultiDiscrete([2, 3], start=[0, 5]),
    "bits": MultiBinary(3),
}
PICTURES: dict[str, Space[Any]] = {
    "hwc": Box(0, 255, (40, 36, 3), np.uint8),
    "chw": Box(0, 255, (3, 36, 40), np.uint8),
    "float": Box(0, 1, (36, 36, 1), np.float32),
}
PARTS: dict[str, Space[Any]] = {
    "dict": Dict({"type": Discrete(3), "eye": PICTURES["chw"], "body": Tuple((Box(-1, 1, (2,)), MultiBinary(2)))}),
    "tuple": Tuple((Box(-1, 1, (2,)), Dict({"x": Discrete(2)}))),
}


def batch(space: Space[Any], rows: int, lanes: int, seed: int = 0) -> Tree:
    """Random members of `space` as tensors `[rows, lanes, ...]`."""
    random = np.random.default_rng(seed)
    if isinstance(space, Dict):
        return {key: batch(part, rows, lanes, seed + i) for i, (key, part) in enumerate(space.spaces.items())}
    if isinstance(space, Tuple):
        return tuple(batch(part, rows, lanes, seed + i) for i, part in enumerate(space.spaces))
    space.seed(int(random.integers(2**31)))
    values = np.stack([np.asarray(space.sample()) for _ in range(rows * lanes)])
    return torch.from_numpy(values.reshape(rows, lanes, *values.shape[1:]))


def starts(rows: int, lanes: int, every: float, seed: int = 0) -> Tensor:
    """bool `[rows, lanes]`: an episode starts once in `every` rows."""
    return torch.rand(rows, lanes, generator=torch.Generator().manual_seed(seed)) < 1 / every
