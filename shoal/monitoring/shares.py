"""Where a worker's time goes: switches between states in, shares of the time as metrics out.

A worker is always in exactly one state, so the shares of a kind of worker add up to 1:

- `worked`: stepping (actor), deciding (policy), learning (trainer);
- `inference`: deciding, where the policy lives in the actor; only actors have it;
- `waited_input`: nothing to work on: no decision, no version, no experience;
- `waited_slot`: nowhere to put what is done.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from shoal.api.metric import Mean, Metric

STATES = ("worked", "inference", "waited_input", "waited_slot")
LABELS = {"actor": "actors", "policy": "policies", "trainer": "trainer", "buffer": "buffers"}
"""Kinds of workers, in the words and the order of a table."""
WAITS_FOR = {
    "actor": {"waited_input": "policy", "waited_slot": "trainer"},
    "policy": {"waited_input": "actors", "waited_slot": "actors"},
    "trainer": {"waited_input": "data", "waited_slot": "its turn"},
    "buffer": {"waited_input": "actors", "waited_slot": "trainer"},
    "": {"waited_input": "data", "waited_slot": "room"},
}
"""Kind -> what it waits for in each state; the last is that of kinds of the user's own."""
_NAME = re.compile(rf"time/(\w+)_({'|'.join(STATES)})")


class Shares:
    """A stopwatch on the hot path: `switch` costs about a fifth of a microsecond.

    It runs from its making, in `worked`. A worker that shares its process leaves each poll in a waiting state: the time of the
    others is no work of its own.
    """

    __slots__ = ("_clock", "_kind", "_seconds", "_since", "_state")

    def __init__(self, kind: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._kind, self._clock = kind, clock
        self._seconds = {state: 0.0 for state in STATES if state != "inference" or kind == "actor"}
        self._state = "worked"
        self._since = clock()

    def switch(self, state: str) -> str:
        """From now on the worker is in `state`. Gives the state before, to go back to."""
        now = self._clock()
        before = self._state
        self._seconds[before] += now - self._since
        self._since = now
        self._state = state
        return before

    def take(self) -> dict[str, Metric]:
        """`time/<kind>_<state>` for every state since the last `take`, weighted by seconds; nothing where no time has passed."""
        self.switch(self._state)
        total = sum(self._seconds.values())
        if not total:
            return {}
        shares: dict[str, Metric] = {
            f"time/{self._kind}_{state}": Mean(seconds / total, weight=total)
            for state, seconds in self._seconds.items()
        }
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return shares


def by_kind(numbers: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Kind -> state -> what `numbers` holds under `time/<kind>_<state>`; other names are passed over."""
    found: dict[str, dict[str, Any]] = {}
    for name, number in numbers.items():
        if match := _NAME.fullmatch(name):
            found.setdefault(match[1], {})[match[2]] = number
    known = {kind: found.pop(kind) for kind in LABELS if kind in found}
    return known | found


def busy(shares: Mapping[str, float]) -> float:
    """The share of the time in which a worker did not wait."""
    return (shares.get("worked") or 0.0) + (shares.get("inference") or 0.0)


def percent(share: float | None) -> str:
    """`93 %`, or `-` where nothing is known."""
    return "-" if share is None else f"{100 * share:.0f} %"
