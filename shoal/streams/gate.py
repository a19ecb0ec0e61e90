"""The update gate: a trainer rests after each update until the controller has seen it, so that a run ends and is saved at exactly
the version that was seen. A mailbox that the controller writes: a count is all that travels, once per update."""

from __future__ import annotations

import numpy as np

from shoal.streams.primitives import Mailbox, Waiter

NBYTES = 16
CLOSED, DRAIN = -1, 1


class GateKeeper:
    """The controller's end."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._words = np.zeros(2, np.int64)

    def open(self, updates: int, *, drain: bool = False) -> None:
        """The trainer may go on once it has made `updates` in this life; `drain`: without learning from what comes."""
        self._words[:] = updates, drain
        self._publish()

    def close(self) -> None:
        """The trainer died: its next life may not begin yet."""
        self._words[0] = CLOSED
        self._publish()

    def _publish(self) -> None:
        self._mailbox.publish(self._mailbox.latest() + 1, self._words.view(np.uint8))


class Gate:
    """The trainer's end. Each life makes its own."""

    def __init__(self, mailbox: Mailbox, waiter: Waiter) -> None:
        self._mailbox, self._waiter = mailbox, waiter
        self._words = np.zeros(2, np.int64)
        self._seen = -1

    def passed(self, updates: int, timeout: float) -> bool:
        """Whether to go on after that many updates."""
        return self._waiter.wait_until(lambda: self._look() >= updates, timeout) or self._look() >= updates

    @property
    def drain(self) -> bool:
        """What comes is let go unlearned: the policy is through with its stop rule."""
        return bool(self._words[1])

    def _look(self) -> int:
        newest = self._mailbox.latest()
        if newest != self._seen and self._mailbox.read(newest, self._words.view(np.uint8)):
            self._seen = newest
        return int(self._words[0])
