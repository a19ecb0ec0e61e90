"""A process that has everything imported and forks into hosts: a host starts in milliseconds. Light to import itself."""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

_PRELOADED = ["shoal.launchers.host", "shoal.envs.gymnasium_vector", "shoal.envs.gymnasium_loop", "safetensors.torch"]


def context() -> ForkServerContext:
    """Where processes come from."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_PRELOADED)
    return found


def warm() -> None:
    """Start it now: it imports on another core while this process does the same."""
    context()
    forkserver.ensure_running()
