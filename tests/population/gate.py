"""CartPole that begins only once so many processes are at it, all at once."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv

PATIENCE = 240.0
"""Seconds: a busy machine takes its time to start as many."""


class Gate(CartPoleEnv):
    """Each process leaves a file in `place`, and waits until there are `count` of them."""

    def __init__(self, place: str, count: int) -> None:
        super().__init__()
        self._place, self._count, self._open = Path(place), count, False

    def reset(self, **options: Any) -> Any:
        if not self._open:
            (self._place / f"{platform.node()}-{os.getpid()}").touch()
            deadline = time.monotonic() + PATIENCE
            while len(list(self._place.iterdir())) < self._count:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"fewer than {self._count} at once")
                time.sleep(0.05)
            self._open = True
        return super().reset(**options)
