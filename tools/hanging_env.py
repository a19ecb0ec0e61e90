"""CartPole that hangs in `step`, `reset` or `close` once a file is there."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class Hanging(gymnasium.Wrapper[Any, Any, Any, Any]):
    """`where`: the method that hangs; `order`: the file."""

    def __init__(self, where: str, order: str, render_mode: str | None = None) -> None:
        super().__init__(gymnasium.wrappers.TimeLimit(CartPoleEnv(render_mode=render_mode), 500))
        self._where, self._order = where, order

    def step(self, action: Any) -> Any:
        self._pass("step")
        return self.env.step(action)

    def reset(self, **options: Any) -> Any:
        self._pass("reset")
        return self.env.reset(**options)

    def close(self) -> None:
        self._pass("close")
        self.env.close()

    def _pass(self, method: str) -> None:
        while method == self._where and os.path.exists(self._order):
            time.sleep(1)
