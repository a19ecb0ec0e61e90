"""A process that has everything imported and forks into those of the copies, so that each begins in milliseconds.

It runs nobody else's code, so it never hangs: when the Env that started it is closed or dies, it sees the end of its connection,
and ends the copies.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import socket
import sys
import time

from shoal.base.descendants import adopt_orphans, kill_below, kill_group, lead_group
from shoal.envs.processes.link import Link

GRACE = 1.0
"""Seconds that copies have to close their environments."""
PR_SET_PDEATHSIG = 1


def serve(link: Link) -> None:
    """First what copies need to know, then a request for each that is to be started, in the place of an older one if there is."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # whoever started the Env decides what they mean
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    start, _ = link.recv()
    for module in ("shoal.envs.factory", "shoal.envs.processes.copy"):
        importlib.import_module(module)
    running: dict[int, int] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            message, (descriptor,) = link.recv()
            row = message["row"]
            if row in running:
                _end(running.pop(row))
            running[row] = _fork(link, descriptor, {**start, **message})
            os.close(descriptor)
    _end_all(list(running.values()))


def _fork(link: Link, descriptor: int, start: dict[str, object]) -> int:
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # it does so itself as well: whoever is first
            os.setpgid(pid, pid)
        return pid
    status = 1
    try:
        link.close()
        lead_group()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        from shoal.envs.processes.copy import run_copy

        run_copy(Link(socket.socket(fileno=descriptor)), start)
        status = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _end(pid: int) -> None:
    """With all that it started."""
    kill_below(pid)
    kill_group(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _end_all(pids: list[int]) -> None:
    deadline = time.monotonic() + GRACE
    while pids and time.monotonic() < deadline:
        pids = [pid for pid in pids if not _ended(pid)]
        time.sleep(0.005)
    kill_below(os.getpid())


def _ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def main(descriptor: int) -> None:
    """In a process of its own, whose connection that is."""
    serve(Link(socket.socket(fileno=descriptor)))
