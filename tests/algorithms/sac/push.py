"""An environment that remembers how it was pushed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Push(gymnasium.Env[np.ndarray, np.ndarray]):
    """Never ends; of all copies, the last pushes are in `pushes`."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)
    pushes: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.pushes.append(float(action[0]))
        return np.zeros(1, np.float32), 0.0, False, False, {}
