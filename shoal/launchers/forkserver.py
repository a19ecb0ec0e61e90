"""A process that has everything imported and forks into others: each starts in milliseconds. Light to import itself."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from multiprocessing import forkserver, process, resource_tracker, util
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

from shoal.base.descendants import adopt_orphans, children, kill_below, kill_tree, stopped

STARTING = threading.Lock()
"""Held while a process is started: until its number is known here, it looks like an orphan."""
PR_SET_PDEATHSIG = 1
PARENT_DIED = signal.SIGUSR1
_SERVER: Any = forkserver._forkserver
PATIENCE, LOOK = 60.0, 0.5
"""Seconds that a start may take, imports included, and between two looks at whether the fork server was stopped. The next start
may take as long again: on a machine that has much else to do, one of them comes to its end."""
ATTEMPTS = 20
"""To start a process, a tenth of a second apart."""
LONGEST = 60
"""Characters of the folder of temporary files, beside which the names of sockets have room."""
_PRELOADED = ["shoal.launchers.preload"]
SAFE_PATH, OURS = "PYTHONSAFEPATH", "shoal"


def preload(module: str) -> None:
    """Let the fork server, which is not there yet, import this too."""
    _PRELOADED.append(module)


def context() -> ForkServerContext:
    """Where processes come from."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_PRELOADED)
    return found


def warm() -> None:
    """Start it now: it imports on another core while this process does the same.

    It is deaf to SIGTERM and SIGHUP, which may reach all processes of a run: the launcher decides what they mean, and needs it.
    """
    context()
    _keep_paths_short()
    with _without_current_folder():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            resource_tracker.ensure_running()  # first: it is deaf to SIGTERM by itself, and unblocks that here
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _keep_paths_short() -> None:
    """The address of a socket has 108 bytes at most: where temporary files lie deep, those of `multiprocessing` go elsewhere."""
    if len(tempfile.gettempdir()) > LONGEST:
        before, tempfile.tempdir = tempfile.tempdir, "/tmp"
        try:
            util.get_temp_dir()  # it remembers, and removes it in the end
        finally:
            tempfile.tempdir = before


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


def wake() -> None:
    """A fork server that was stopped goes on: it alone can tell how the processes it started have ended."""
    pid = _SERVER._forkserver_pid
    if pid is not None and stopped(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def not_for_ever(patience: float) -> Iterator[None]:
    """While entered, a fork server that was stopped goes on, and one that hangs is killed: whoever asks it never waits for ever."""
    over = threading.Event()
    threading.Thread(target=_watch, args=(over, patience), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(over: threading.Event, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not over.wait(LOOK):
        wake()
        pid = _SERVER._forkserver_pid
        if pid is not None and time.monotonic() > deadline:
            kill_tree(pid)


def kill_orphans() -> None:
    """End what environments of dead processes have left: the fork server has adopted it."""
    with STARTING:
        known = {process.pid for process in multiprocessing.active_children()}
        kill_tree(*(children(_SERVER._forkserver_pid or 0) - known))


def start_process(process: BaseProcess) -> None:
    """From the fork server. One that is just dying takes orders and obeys none: ask again, until it is dead and replaced."""
    for attempt in range(ATTEMPTS):
        warm()
        wake()
        try:
            with STARTING, _without_main(), not_for_ever(PATIENCE * (attempt + 1)):
                process.start()
            return
        except (OSError, EOFError):
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.1)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Start a process that does not import the user's script again: nothing in there is needed to work."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


# ---------------------------------------------------------------- in the fork server, and in what it forks into


def guard() -> None:
    """In the fork server: end with the launcher, however that ends, and all that is below with it, whatever hangs or is stopped."""
    server, launcher = os.getpid(), os.getppid()

    def end() -> None:
        if os.getpid() == server:
            kill_below(server)
            folder = os.path.dirname(_SERVER._forkserver_address or "")
            if os.getppid() != launcher and os.path.basename(folder).startswith("pymp-"):  # else its owner removes it
                shutil.rmtree(folder, ignore_errors=True)

    def look(*_: object) -> None:
        if os.getppid() != launcher:  # the thread that started us may end before its process
            end()
            os._exit(0)

    adopt_orphans()
    warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")  # an orphan that ended
    atexit.register(end)
    signal.signal(PARENT_DIED, look)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, PARENT_DIED)
    look()


def leave_server() -> None:
    """In a process that was forked: the server need not live on for it, and environments may start processes, which we end."""
    adopt_orphans()
    signal.signal(PARENT_DIED, signal.SIG_DFL)
    os.close(_SERVER._forkserver_alive_fd)
    _SERVER._forkserver_alive_fd = None
    me: Any = process.current_process()
    me._config["daemon"] = False
