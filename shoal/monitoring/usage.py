"""What this process and its children use: cores and memory, by `/proc`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PROPORTIONAL = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
_SECONDS_BETWEEN = 2.0


class Usage(NamedTuple):
    """Of all processes together, since the last look."""

    cores: float
    nbytes: int
    """Memory that several share is counted once."""


class UsageMeter:
    """Looks every two seconds at most: memory costs the kernel a walk through the pages."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._ticks = {pid: _ticks(pid) for pid in _family(os.getpid())}
        self._usage: Usage | None = None

    def usage(self) -> Usage | None:
        """None before there was time to see any."""
        now = self._clock()
        if now - self._at < _SECONDS_BETWEEN:
            return self._usage
        ticks = {pid: _ticks(pid) for pid in _family(os.getpid())}
        spent = sum(count - min(self._ticks.get(pid, 0), count) for pid, count in ticks.items())
        self._usage = Usage(spent / _TICK / (now - self._at), sum(_nbytes(pid) for pid in ticks))
        self._at, self._ticks = now, ticks
        return self._usage


def _family(pid: int) -> Iterator[int]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(path).split():
            yield from _family(int(child))


def _ticks(pid: int) -> int:
    """In user and kernel mode; 0 where it ended a moment ago."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def _nbytes(pid: int) -> int:
    found = _PROPORTIONAL.search(_read(Path(f"/proc/{pid}/smaps_rollup")))
    return 1024 * int(found[1]) if found else 0


def _read(path: Path) -> str:
    """Empty where the process ended a moment ago."""
    try:
        return path.read_text()
    except OSError:
        return ""
