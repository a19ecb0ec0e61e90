"""When each process went into its environments, in shared memory: one that hangs shows from outside, whatever it hangs in."""

from __future__ import annotations

import time

from shoal.api.worker import Heartbeat
from shoal.streams.transports.shm.segment import Segment, SegmentHandle


class HeartbeatBoard:
    """One number per process: the moment it went into its environments, 0 while it is elsewhere."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._words = segment.words(0, segment.handle.nbytes // 8)

    @classmethod
    def create(cls, processes: int) -> HeartbeatBoard:
        """The launcher's."""
        return cls(Segment.create(8 * processes))

    @classmethod
    def attach(cls, handle: SegmentHandle) -> HeartbeatBoard:
        """A process's."""
        return cls(Segment.attach(handle))

    @property
    def handle(self) -> SegmentHandle:
        """For `attach`."""
        return self._segment.handle

    def place(self, number: int) -> Heartbeat:
        """Where one process says so."""
        return _Place(self._words, number)

    def away(self, number: int) -> float:
        """Seconds that a process has been inside its environments without coming back."""
        since = self._words[number]
        return (time.monotonic_ns() - since) / 1e9 if since else 0.0

    def clear(self, number: int) -> None:
        """A new life begins."""
        self._words[number] = 0

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._segment.close()


class _Place(Heartbeat):
    def __init__(self, words: memoryview, number: int) -> None:
        self._words, self._number = words, number

    def begin(self, seconds: float) -> None:
        self._words[self._number] = time.monotonic_ns() + int(seconds * 1e9)

    def beat(self) -> None:
        self._words[self._number] = time.monotonic_ns()

    def rest(self) -> None:
        self._words[self._number] = 0
