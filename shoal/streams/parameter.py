"""The parameter stream: versions of one policy, from its trainer to whoever acts with it."""

from __future__ import annotations

from shoal.base.flat import Flat
from shoal.streams.primitives import Mailbox


class ParameterReader:
    """Keeps one copy of a policy at the version that is due: the round's own (`exact`), else the newest."""

    def __init__(self, mailbox: Mailbox, flat: Flat, *, max_lag: int = 0, start: int = 0, exact: bool = True) -> None:
        self._mailbox, self._flat, self._max_lag, self._start, self._exact = mailbox, flat, max_lag, start, exact
        self.version = -1

    def pin(self, round_: int) -> bool:
        """Hold the version of round r: max(start, r - max_lag), `start` being where the run began. False: not published yet.

        Only a trainer that died in round r publishes the next version before the round is over; then the newest will do.
        """
        if not self._exact:
            return self.latest() >= 0
        due = max(self._start, round_ - self._max_lag)
        if self.version == due or self._load(due):
            return True
        return self._mailbox.latest() > due and self.latest() > due

    def published(self, round_: int) -> bool:
        """Whether `pin` would find its version."""
        due = max(self._start, round_ - self._max_lag) if self._exact else 0
        return self._mailbox.latest() >= due

    def latest(self) -> int:
        """Take the newest version, if there is a newer one than is held."""
        newest = self._mailbox.latest()
        if newest > self.version:
            self._load(newest)
        return self.version

    def _load(self, version: int) -> bool:
        if not self._flat.read(lambda block: self._mailbox.read(version, block)):
            return False
        self.version = version
        return True
