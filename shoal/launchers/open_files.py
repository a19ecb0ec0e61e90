"""How many files a process may have open, and how many a run needs. Light to import."""

from __future__ import annotations

import os
import resource

from shoal.api.program import Program
from shoal.base.errors import InputError

PER_SEGMENT, PER_PROCESS, SPARE = 2, 3, 32
"""Descriptors of a piece of shared memory, of a process that is heard, and of all that is open for a moment besides."""


def allow_open_files(program: Program) -> None:
    """See that the launcher of these processes may open what it needs: as far as the system lets us, the limit follows."""
    processes = len(program.processes)
    segments = len(program.streams) + processes + 2  # a bell each and our own, and the heartbeats
    needed = len(os.listdir("/proc/self/fd")) + PER_SEGMENT * segments + PER_PROCESS * processes + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed or soft == resource.RLIM_INFINITY:
        return
    if hard < needed and hard != resource.RLIM_INFINITY:
        raise InputError(
            f"{processes} processes need {needed} open files, and this machine allows {hard}: "
            f"`ulimit -n {needed}` where that is allowed, fewer processes (placement), or --on inline"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
