"""Leave to go on: a trainer rests after each update until the controller has seen it, so that a run ends and is saved at exactly
the version that was judged."""

from __future__ import annotations

import numpy as np

from shoal.streams.primitives import Mailbox, Waiter

NBYTES = 16


class LeaveGiver:
    """The controller's end."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._words = np.zeros(2, np.int64)

    def grant(self, updates: int) -> None:
        """The trainer may go on once it has made `updates` in this life; -1: not at all."""
        self._words[0] = updates
        self._publish()

    def renew(self) -> None:
        """The trainer died: its next life has no leave yet, and nothing is asked of it."""
        self._words[:] = -1, 0
        self._publish()

    def ask_state(self) -> None:
        """The trainer shall hand in its state, at the next moment between two updates."""
        self._words[1] += 1
        self._publish()

    def _publish(self) -> None:
        self._mailbox.publish(self._mailbox.latest() + 1, self._words.view(np.uint8))


class Leave:
    """The trainer's end. Each life makes its own: all that was asked since the giver renewed it is asked of this life."""

    def __init__(self, mailbox: Mailbox, waiter: Waiter) -> None:
        self._mailbox, self._waiter = mailbox, waiter
        self._words = np.zeros(2, np.int64)
        self._seen = -1
        self._answered = 0

    def granted(self, updates: int, timeout: float) -> bool:
        """Whether to go on after that many updates; waits, and ends the wait early if a state is asked for."""
        self._waiter.wait_until(lambda: self._look() >= updates or self.state_due, timeout)
        return self._look() >= updates

    @property
    def state_due(self) -> bool:
        """A state is asked for."""
        self._look()
        return int(self._words[1]) > self._answered

    def state_given(self) -> None:
        """It was handed in."""
        self._answered = int(self._words[1])

    def _look(self) -> int:
        newest = self._mailbox.latest()
        if newest != self._seen and self._mailbox.read(newest, self._words.view(np.uint8)):
            self._seen = newest
        return int(self._words[0])
