"""A process that has everything imported and forks into others: each starts in milliseconds. Light to import itself."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext

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


@contextmanager
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
