"""Signs of life of each process, in shared memory: one that hangs shows from outside, whatever it hangs in."""

from __future__ import annotations

import time

from shoal.api.worker import Heartbeat, Pulse
from shoal.streams.transports.shm.segment import Segment, SegmentHandle

MOMENT, IN_ENV, LONGEST, ALLOWED, WORDS = range(5)
"""Of each process: its last sign of life, whether that was inside its environments, the longest silence that it broke, and how long
it may be silent besides."""


class HeartbeatBoard:
    """A few numbers per process, which it alone writes."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._words = segment.words(0, segment.handle.nbytes // 8)

    @classmethod
    def create(cls, processes: int) -> HeartbeatBoard:
        """The launcher's."""
        return cls(Segment.create(8 * WORDS * processes))

    @classmethod
    def attach(cls, handle: SegmentHandle) -> HeartbeatBoard:
        """A process's."""
        return cls(Segment.attach(handle))

    @property
    def handle(self) -> SegmentHandle:
        """For `attach`."""
        return self._segment.handle

    def place(self, number: int) -> Heartbeat:
        """Where one process gives its signs."""
        return _Place(self._words, number)

    def pulse(self, number: int) -> Pulse:
        """How long a process has been silent, and where."""
        first = WORDS * number
        moment, in_env, longest, allowed = self._words[first : first + WORDS]
        silent = max(0.0, (time.monotonic_ns() - moment) / 1e9) if moment else 0.0
        return Pulse(silent, bool(in_env), longest / 1e9, allowed / 1e9)

    def clear(self, number: int) -> None:
        """A new life begins."""
        for word in range(WORDS):
            self._words[WORDS * number + word] = 0

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._segment.close()


class _Place(Heartbeat):
    def __init__(self, words: memoryview, number: int) -> None:
        self._words, self._moment = words, WORDS * number + MOMENT
        self._in_env, self._longest = WORDS * number + IN_ENV, WORDS * number + LONGEST
        self._allowed = WORDS * number + ALLOWED

    def begin(self, seconds: float, *, in_env: bool) -> None:
        self._words[self._in_env], self._words[self._allowed] = in_env, int(seconds * 1e9)
        self._words[self._moment] = time.monotonic_ns()

    def beat(self) -> None:
        self._sign(1)

    def between(self) -> None:
        if not self._words[self._allowed]:  # else the workers are being built, with time to spare
            self._sign(self._words[self._in_env])

    def rest(self) -> None:
        self._sign(0)

    def _sign(self, in_env: int) -> None:
        words, now = self._words, time.monotonic_ns()
        if words[self._allowed]:  # what took its time to be built says nothing of how it works
            words[self._allowed] = 0
        elif now - words[self._moment] > words[self._longest] and words[self._moment]:
            words[self._longest] = now - words[self._moment]
        words[self._moment] = now
        words[self._in_env] = in_env
