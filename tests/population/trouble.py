"""CartPole with faults, each of which strikes once, or as often as it says: a file tells whether it has."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv

LATE = 40
"""Steps of a copy before something happens."""


class Trouble(CartPoleEnv):
    """`fault`: `kill`, `hang` or `raise`; `place`: where files are put; `times`: how often; empty: nothing happens."""

    def __init__(self, fault: str = "", place: str = "", times: int = 1) -> None:
        super().__init__()
        self._fault, self._place, self._times, self._steps = fault, Path(place), times, 0

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._fault and self._steps == LATE:
            self._strike()
        return super().step(action)

    def _strike(self) -> None:
        for number in range(self._times):
            try:
                (self._place / f"{self._fault}-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            if self._fault == "raise":
                raise RuntimeError("the pole broke")
            if self._fault == "hang":
                time.sleep(600)
            os.kill(os.getpid(), signal.SIGKILL)
