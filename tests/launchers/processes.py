"""Looking at processes from outside: who is below whom, who lives, what is left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def family() -> dict[int, int]:
    """Every process on this machine -> its parent."""
    parents = {}
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            name, rest = Path("/proc", entry, "stat").read_text().rsplit(")", 1)
            parents[int(name.split()[0])] = int(rest.split()[1])
        except (OSError, ValueError):
            continue
    return parents


def below(root: int) -> set[int]:
    """All processes below `root`."""
    parents, found = family(), {root}
    while len(more := found | {child for child, parent in parents.items() if parent in found}) > len(found):
        found = more
    return found - {root}


def hosts() -> set[int]:
    """Processes that the fork server of this process started; other tests may have theirs at the same time."""
    parents, here = family(), os.getpid()
    return {process for process in below(here) if parents.get(process) not in (None, here)}


def alive(processes: set[int]) -> set[int]:
    """Those that are neither gone nor zombies."""
    found = set()
    for process in processes:
        try:
            if " Z " not in Path(f"/proc/{process}/stat").read_text():
                found.add(process)
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it holds within that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def nothing_left() -> Iterator[None]:
    """What runs inside must leave no process, no file and no memory."""
    before, files = hosts(), len(os.listdir("/proc/self/fd"))
    yield
    assert not alive(hosts() - before)
    assert len(os.listdir("/proc/self/fd")) <= files + 4  # the fork server itself, once
    assert not list(Path("/dev/shm").glob("shoal*"))
