"""A process that has everything imported and forks into others: each starts in milliseconds. Light to import itself."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

_server: Any = forkserver._forkserver
PR_SET_PDEATHSIG = 1
PATIENCE, LOOK = 60.0, 0.5
"""Seconds that a start may take, imports included, and between two looks at whether the fork server was stopped."""

SAFE_PATH, OURS = "PYTHONSAFEPATH", "shoal"


def context() -> ForkServerContext:
    """Where processes come from."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["shoal.launchers.preload"])
    return found


def warm() -> None:
    """Start it now: it imports on another core while this process does the same.

    It is deaf to SIGTERM, which may reach all processes of a run: the launcher decides what that means, and needs them for it.
    """
    context()
    with _without_current_folder():
        resource_tracker.ensure_running()  # first: it unblocks what is blocked here
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """What starts here looks into the current folder for no library, as `python -c` would. `preload` takes the variable back."""
    if SAFE_PATH in os.environ:
        yield
        return
    os.environ[SAFE_PATH] = OURS
    try:
        yield
    finally:
        del os.environ[SAFE_PATH]


@contextlib.contextmanager
def not_for_ever() -> Iterator[None]:
    """While entered, a fork server that hangs is killed, so that whoever asks it fails instead of waiting."""
    over = threading.Event()
    threading.Thread(target=_watch, args=(over,), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(over: threading.Event) -> None:
    deadline = time.monotonic() + PATIENCE
    while not over.wait(LOOK):
        pid = _server._forkserver_pid
        if pid is not None and (_stopped(pid) or time.monotonic() > deadline):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def let_go() -> None:
    """In a process that came from it: do not keep it alive. It then ends with the launcher, and everybody ends with it."""
    if _server._forkserver_alive_fd is not None:
        os.close(_server._forkserver_alive_fd)
        _server._forkserver_alive_fd = None
