"""Who misbehaves is warned, and then has to go; who knocks too often is not heard."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

GOOD = 10
"""Good rounds in a row that make up for one strike."""
ASIDE = 2
"""Rounds in a row that were set aside, while those of others were taken, count as a strike: honest ones are now and then."""
KNOWN = 4096
"""Addresses that are remembered."""


class Strikes:
    """Child -> what it has against it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}
        self._good: dict[str, int] = {}
        self._aside: dict[str, int] = {}
        """Rounds in a row."""
        self._at: dict[str, int] = {}
        """The version at which the last of them was."""

    def of(self, child: str) -> int:
        """How many."""
        return self._counts.get(child, 0) + self._aside.get(child, 0) // ASIDE

    def add(self, child: str) -> bool:
        """One more; whether it has to go."""
        self._counts[child] = self._counts.get(child, 0) + 1
        self._good[child] = 0
        return self.out(child)

    def set_aside(self, child: str, version: int) -> bool:
        """A round that was well formed and no good, at that version of the parent's; whether the child has to go.

        It counts if the version is a new one, so others were good meanwhile: where all are set aside, it is nobody's fault.
        """
        if self._at.get(child) != version:
            self._at[child] = version
            self._aside[child] = self._aside.get(child, 0) + 1
        self._good[child] = 0
        return self.out(child)

    def good(self, child: str) -> None:
        """A round that nobody minded."""
        if self.out(child):
            return
        self._aside[child] = 0
        self._good[child] = self._good.get(child, 0) + 1
        if self._good[child] >= GOOD and self._counts.get(child, 0):
            self._counts[child] -= 1
            self._good[child] = 0

    def out(self, child: str) -> bool:
        """It is not wanted any more."""
        return self.of(child) >= self._limit

    def state(self) -> dict[str, int]:
        """To go on from."""
        return {child: self.of(child) for child in {*self._counts, *self._aside}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._counts = {child: int(count) for child, count in state.items()}


class RateLimit:
    """So many at once from one address, then `per_second`: a bucket that fills again. Old addresses are forgotten."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._rate, self._clock = burst, per_second, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Whether one more may come, which then counts."""
        now = self._clock()
        left, then = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        allowed = left >= 1
        self._left[address] = (left - allowed, now)
        while len(self._left) > KNOWN:
            self._left.popitem(last=False)
        return allowed
