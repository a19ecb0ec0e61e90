"""An environment of which one copy is quick enough, and all together are not."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class SlowCopy(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Each step, or each reset, takes `seconds`; episodes have three steps."""

    def __init__(self, where: str, seconds: float, render_mode: str | None = None) -> None:
        super().__init__(gymnasium.wrappers.TimeLimit(CartPoleEnv(render_mode=render_mode), 3))
        self._where, self._seconds = where, seconds

    def step(self, action: Any) -> Any:
        if self._where == "step":
            time.sleep(self._seconds)
        return self.env.step(action)

    def reset(self, **options: Any) -> Any:
        if self._where == "reset":
            time.sleep(self._seconds)
        return self.env.reset(**options)


def slow_copy(where: str, seconds: float, render_mode: str | None = None) -> SlowCopy:
    return SlowCopy(where, seconds, render_mode)
