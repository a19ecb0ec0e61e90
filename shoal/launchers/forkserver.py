"""A process that has everything imported and forks into others: each starts in milliseconds. Light to import itself."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext


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
    resource_tracker.ensure_running()  # first: it unblocks what is blocked here
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
