"""The one thing a process sleeps on, however many rings and mailboxes it waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from shoal.streams.transports.shm import futex
from shoal.streams.transports.shm.segment import ALIGNMENT, Segment, SegmentHandle

LOOKING = 50e-6
"""Seconds to look before falling asleep, yielding in between. Waking a core that idles takes longer than that: measured on 2 cores
(`benchmarks/shm_wakeup.py`), it makes a round trip seven times as fast between two cores and no slower on one."""


class Doorbell:
    """A shared 32-bit word that grows with each ring. Any process may ring it; usually one process sleeps on it."""

    def __init__(self, segment: Segment, offset: int = 0, *, looking: float = LOOKING) -> None:
        self._segment, self._looking = segment, looking
        self._word = segment.words(offset, 1, "I")  # also keeps the mapping, and so the address, alive
        self._address = segment.address(offset)

    @classmethod
    def create(cls) -> Doorbell:
        """A doorbell of its own, to be named to rings and mailboxes."""
        return cls(Segment.create(ALIGNMENT))

    @classmethod
    def attach(cls, handle: SegmentHandle) -> Doorbell:
        """One that another process created."""
        return cls(Segment.attach(handle))

    @property
    def handle(self) -> SegmentHandle:
        """For `attach`; of a doorbell that has a segment to itself."""
        return self._segment.handle

    def ring(self) -> None:
        """Wake whoever sleeps; who is about to sleep will not."""
        futex.add_and_wake(self._address)

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> bool:
        """Sleep until `ready()` holds; False if it did not in time. It is asked again after every ring, whoever it was for."""
        if ready():
            return True
        began = time.monotonic()
        deadline = began + timeout
        while time.monotonic() < began + min(self._looking, timeout):
            if ready():
                return True
            os.sched_yield()  # whoever is waited for may need this very core
        while True:
            seen = self._word[0]  # before the question: a ring after it makes the kernel refuse the sleep
            futex.fence()
            if ready():
                return True
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            futex.wait(self._address, seen, remaining)

    def close(self) -> None:
        """Let go; ringing it afterwards is an error."""
        self._address = 0
        self._word.release()
        self._segment.close()
