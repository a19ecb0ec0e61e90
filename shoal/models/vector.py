"""Observations without spatial structure, as one row of floats each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor, nn

from shoal.base.errors import InputError


class Vector(nn.Module):
    """`[N, ...]` of one space -> float32 `[N, features]`.

    Boxes are flattened, uint8 ones scaled to [0, 1]; Discrete and MultiDiscrete become one-hot, side by side;
    bits (MultiBinary) become 0.0 and 1.0.
    """

    component: Tensor | None
    value: Tensor

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        component, value = _one_hot_columns(space)
        self.register_buffer("component", component, persistent=False)
        self.register_buffer("value", value, persistent=False)
        self.features = int(np.prod(space.shape or ())) if component is None else len(component)
        self.plain = component is None and space.dtype == np.float32
        """Nothing to do but flatten."""
        self.scale = 1 / 255 if space.dtype == np.uint8 and isinstance(space, Box) else None

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(x.shape[0], -1)
        if self.component is not None:
            return x.index_select(1, self.component).eq(self.value).float()
        return x.float() if self.scale is None else x * self.scale


def _one_hot_columns(space: Space[Any]) -> tuple[Tensor | None, Tensor | None]:
    """For every one-hot column, which component of the observation it watches and for which value."""
    match space:
        case Discrete():
            sizes, starts = np.array([space.n]), np.array([space.start])
        case MultiDiscrete():
            sizes, starts = space.nvec.reshape(-1), space.start.reshape(-1)
        case Box() | MultiBinary():
            return None, None
        case _:
            raise InputError(
                f"this model takes no observations of {space}: try model.name = 'auto', flatten them "
                "(env.wrappers: [flatten]), or name your own model (model.name = 'file.py:Class')"
            )
    component = np.repeat(np.arange(len(sizes)), sizes)
    value = np.concatenate([start + np.arange(size) for size, start in zip(sizes, starts, strict=True)])
    return torch.from_numpy(component), torch.from_numpy(value.astype(np.int64))
