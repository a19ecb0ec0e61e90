"""A Tally between threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from shoal.streams.transports.rounds import LINE, Rounds


class MemoryTally(Rounds):
    """All threads call the one object, each with its own rank."""

    def __init__(self, ranks: int, nbytes: int) -> None:
        words = memoryview(bytearray(8 * LINE * (1 + ranks))).cast("q")
        room = -(-nbytes // 64) * 64
        super().__init__(words, np.zeros((2, ranks, room), np.uint8), nbytes, _ThreadBell())


class _ThreadBell:
    """Python's own condition: its lock also orders memory between threads."""

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def ring(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> bool:
        with self._condition:
            return self._condition.wait_for(ready, timeout)
