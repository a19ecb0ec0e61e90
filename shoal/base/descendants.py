"""The processes below a process. Environments start their own: whoever ends a worker or a run ends those too.

An orphan goes to the nearest ancestor that adopts orphans. Workers and their fork server do: what the environments of a worker
start stays below it while it lives, daemons included, and below the fork server after that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LIMIT = 1.0
"""Seconds in which killed processes have to be gone: one that may not be killed, or hangs in the kernel, is left."""


def adopt_orphans(*, adopt: bool = True) -> None:
    """Become the parent of all below whose own parent dies; or no longer."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def lives(process: int) -> bool:
    """It is there, and no zombie."""
    return _state(process) not in "ZX"


def stopped(process: int) -> bool:
    """By SIGSTOP, or by a debugger."""
    return _state(process) in "Tt"


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def children(process: int, thread: int | str = "*") -> set[int]:
    """What a process, or one of its threads, has started or adopted."""
    found: set[int] = set()
    with contextlib.suppress(OSError):  # it ended meanwhile
        for path in list(Path(f"/proc/{process}/task").glob(f"{thread}/children")):
            with contextlib.suppress(OSError):
                found.update(map(int, path.read_text().split()))
    return found


def below(process: int) -> set[int]:
    """All processes below one."""
    found: set[int] = set()
    new = children(process)
    while new:
        found |= new
        new = set().union(*map(children, new)) - found
    return found


def kill_below(*processes: int) -> None:
    """Kill all that is below, again and again until nothing lives there: they may start others meanwhile."""
    _kill(lambda: set().union(*map(below, processes)))


def kill_tree(*processes: int) -> None:
    """The same, and the processes themselves afterwards: until then it shows what is theirs."""
    kill_below(*processes)
    _kill(lambda: {*processes}.union(*map(below, processes)))


def lead_group() -> None:
    """Become the leader of a process group of its own, to which all below belong that do not leave it."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


def kill_group(leader: int) -> None:
    """Kill what is left of a process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _kill(find: Callable[[], set[int]]) -> None:
    deadline = time.monotonic() + LIMIT
    while living := [process for process in find() if lives(process)]:
        for process in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(0.002)


@contextlib.contextmanager
def no_new_children() -> Iterator[None]:
    """What this thread starts inside, and all below that, is gone afterwards; but for the helpers of `multiprocessing`."""
    me = os.getpid(), threading.get_native_id()
    before = children(*me)
    try:
        yield
    finally:
        kill_tree(*(children(*me) - before - _helpers()))


def _helpers() -> set[int]:
    """The fork server and the resource tracker of this process, where there are any."""
    names = (("forkserver", "_forkserver", "_forkserver_pid"), ("resource_tracker", "_resource_tracker", "_pid"))
    found = set()
    for module, helper, pid in names:
        if (loaded := sys.modules.get(f"multiprocessing.{module}")) is not None:
            found.add(getattr(getattr(loaded, helper), pid))
    return found
