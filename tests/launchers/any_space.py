"""An environment with whatever spaces a test asks for; it complains if an action lies outside its own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

OBSERVATIONS = {
    "discrete": Discrete(5, start=3),
    "multi_discrete": MultiDiscrete([2, 3]),
    "multi_binary": MultiBinary(4),
    "vector": Box(-1.0, 1.0, (3,), np.float64),
    "matrix": Box(-1.0, 1.0, (3, 2), np.float32),
    "image": Box(0, 255, (36, 36, 3), np.uint8),
    "dict": Dict(
        {
            "near": Box(-1.0, 1.0, (2,)),
            "far": Dict({"bits": MultiBinary(3), "picture": Box(0, 255, (1, 40, 40), np.uint8)}),
        }
    ),
    "tuple": Tuple([Discrete(4), Box(-1.0, 1.0, (2,))]),
}
ACTIONS = {
    "discrete": Discrete(3, start=2),
    "multi_discrete": MultiDiscrete([2, 3, 2]),
    "multi_binary": MultiBinary(3),
    "box": Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)),
}


class AnySpace(gymnasium.Env[Any, Any]):
    """Random observations; ends by termination or truncation every few steps."""

    def __init__(self, observation: str, action: str, masked: bool = False) -> None:
        self.observation_space = OBSERVATIONS[observation]
        self.action_space = ACTIONS[action]
        self._masked, self._time = masked, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._time = 0
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        if self._masked:
            self._check(action)
        self._time += 1
        seen, info = self._seen()
        return seen, 1.0, self._time == 7, self._time == 5 and self.np_random.random() < 0.3, info

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        info: dict[str, Any] = {}
        if self._masked:
            self._mask = self._draw_mask()
            info["action_mask"] = self._mask
        return self.observation_space.sample(), info

    def _draw_mask(self) -> Any:
        if isinstance(self.action_space, Discrete):
            mask = np.zeros(self.action_space.n, np.int8)
            mask[self.np_random.integers(self.action_space.n)] = 1
            return mask
        return tuple(np.eye(n, dtype=np.int8)[self.np_random.integers(n)] for n in self.action_space.nvec)

    def _check(self, action: Any) -> None:
        if isinstance(self.action_space, Discrete):
            assert self._mask[action - self.action_space.start]
        else:
            assert all(mask[choice] for mask, choice in zip(self._mask, action, strict=True))
