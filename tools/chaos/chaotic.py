"""CartPole that misbehaves when a file says so: whichever copy steps first takes the order."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

LOOK = 50
"""Steps between two looks."""


class Chaos(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Raises, hangs, ends its process or pays NaN, once for each order."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(gymnasium.wrappers.TimeLimit(CartPoleEnv(render_mode=render_mode), 500))
        self._steps = 0
        self._order = Path(os.environ.get("SHOAL_CHAOS", os.devnull))

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if self._steps % LOOK == 0 and self._order.is_file():
            reward = self._misbehave(float(reward))
        return observation, reward, terminated, truncated, info

    def _misbehave(self, reward: float) -> float:
        taken = self._order.with_name(f"taken-{os.getpid()}")
        try:
            self._order.rename(taken)
        except FileNotFoundError:
            return reward
        fault = taken.read_text()
        if fault == "raise":
            raise RuntimeError("ordered")
        if fault == "exit":
            os._exit(3)
        if fault == "hang":
            time.sleep(1e6)
        return float("nan")
