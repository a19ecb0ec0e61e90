"""Batches on their way to who learns from them: on a device the next one is drawn and sent while the last is learned from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shoal.api.fragment import Fragment
from shoal.base.transfer import Road


class Staged(NamedTuple):
    """A batch, twice."""

    here: Fragment
    """As it came."""
    there: Fragment
    """On the device of who learns from it."""


class Staging:
    """Consumes batches, produces them on a device. Legal order: `take`, then maybe `send_next`, and again.

    `ahead`: what comes next does not depend on what is made of the last. Where it does, `send_next` does nothing.
    """

    def __init__(self, batches: Iterator[Fragment], road: Road, *, ahead: bool) -> None:
        self._batches, self._road, self._ahead = batches, road, ahead and road.leads_away
        self._next: Staged | None = None

    def take(self) -> Staged | None:
        """The next batch to learn from; None: there are no more."""
        staged, self._next = self._next or self._send(), None
        if staged is not None:
            self._road.arrive(vars(staged.there))
        return staged

    def send_next(self) -> None:
        """The last batch is being learned from, and nobody has waited for that: send the one after it."""
        if self._ahead:
            self._next = self._send()

    def _send(self) -> Staged | None:
        batch = next(self._batches, None)
        if batch is None or not self._road.leads_away:
            return None if batch is None else Staged(batch, batch)
        return Staged(batch, Fragment(**self._road.send(vars(batch))))
