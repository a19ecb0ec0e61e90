"""An environment with much to see: what goes over with a batch of it is mostly observations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Wide(gymnasium.Env[Any, Any]):
    """Noise to see, the first action to be paid for; cut off after 10 steps."""

    def __init__(self, continuous: bool = False) -> None:
        self.observation_space = Box(-np.inf, np.inf, (64,), np.float32)
        self.action_space = Box(-1.0, 1.0, (2,), np.float32) if continuous else Discrete(3)
        self._steps = 0

    def _seen(self) -> Any:
        return self.np_random.normal(size=64).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self._seen(), float(np.all(action == 0)), False, self._steps == 10, {}
