"""Environments made harder by showing less of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from shoal.api.env import Array


class HideVelocity(gymnasium.ObservationWrapper[Array, Any, Array]):
    """Keeps some numbers of a vector: by default CartPole's position and angle, so that speeds must be remembered."""

    def __init__(self, env: gymnasium.Env[Array, Any], keep: Sequence[int] = (0, 2)) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, Box) or len(space.shape) != 1 or max(keep) >= space.shape[0]:
            raise TypeError(f"HideVelocity keeps entries {list(keep)} of a vector; the environment shows {space}")
        self._keep = list(keep)
        self.observation_space = Box(space.low[self._keep], space.high[self._keep], dtype=space.dtype)

    def observation(self, observation: Array) -> Array:
        """The entries that stay."""
        return np.asarray(observation)[self._keep]
