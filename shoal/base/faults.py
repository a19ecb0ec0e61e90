"""Faults on order, for tests: `SHOAL_FAULT="trainer@update=37:kill"` makes the trainer kill itself before its 37th update.

`WORKER@EVENT=COUNT:ACTION`, several separated by commas. WORKER is a kind (`actor`, `trainer`)
or a name (`actor-1`); the actions are `kill` (SIGKILL, no word), `raise` and `hang`. The first fault of a worker strikes its first
life, the next its second.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping
from typing import NamedTuple

from shoal.base.errors import InputError

VARIABLE = "SHOAL_FAULT"
_FORM = re.compile(r"(?P<worker>(?P<kind>[a-z]+)(-[\w.-]+)?)@(?P<event>\w+)=(?P<count>\d+):(?P<action>kill|raise|hang)")


class Fault(NamedTuple):
    """One fault on order."""

    worker: str
    event: str
    number: int
    action: str


def parse_faults(text: str, events: Mapping[str, tuple[str, ...]]) -> list[Fault]:
    """Read the variable; what makes no sense is an error that shows the form. `events`: kind -> what can be counted."""
    faults = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _FORM.fullmatch(part)
        if match is None or match["event"] not in events.get(match["kind"], ()):
            known = ", ".join(f"{kind}@{event}=N" for kind, counted in events.items() for event in counted)
            raise InputError(f"{VARIABLE}={part}: write one of {known}, then :kill, :raise or :hang")
        faults.append(Fault(match["worker"], match["event"], int(match["count"]), match["action"]))
    return faults


class Faults:
    """What awaits one life of one worker."""

    def __init__(self, faults: list[Fault], kind: str, name: str, life: int = 0) -> None:
        self._waiting = [fault for fault in faults if fault.worker in (kind, name)][life : life + 1]

    def at(self, event: str, count: int) -> None:
        """Strike, if it is time; counts grow from call to call, and need not meet the number exactly."""
        if self._waiting and self._waiting[0].event == event and self._waiting[0].number <= count:
            _strike(self._waiting.pop())


def _strike(fault: Fault) -> None:
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.action == "raise":
        raise RuntimeError(f"ordered by {VARIABLE}: {fault.worker}@{fault.event}={fault.number}")
    while True:
        time.sleep(3600)


NO_FAULTS = Faults([], "", "")
