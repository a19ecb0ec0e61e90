"""Environments that start processes of their own, and who is left of those."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tests.launchers.broken import Flawed
from tests.launchers.processes import alive


class Parent(Flawed):
    """Starts a process, one that leaves session and parent as daemons do, and a fork of itself. It ends none of them.

    `fails`: the step at which it does so, `how`: raises or hangs.
    """

    def __init__(self, folder: str, fails: int = -1, how: str = "raises") -> None:
        super().__init__(range(0))
        self._folder, self._fails, self._how = Path(folder), fails, how
        self._write("child", os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ))
        daemon = "setsid sleep 1000 >/dev/null 2>&1 & echo $!"
        self._write("daemon", int(subprocess.check_output(["sh", "-c", daemon])))
        fork = multiprocessing.get_context("fork").Process(target=signal.pause)
        fork.start()
        assert fork.pid is not None
        self._write("fork", fork.pid)

    def _write(self, kind: str, process: int) -> None:
        (self._folder / f"{os.getpid()}.{kind}.{process}").touch()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._time == self._fails:
            if self._how == "hangs":
                threading.Event().wait()
            raise ZeroDivisionError("as it was told")
        return super().step(action)

    def close(self) -> None:
        (self._folder / f"closed.{os.getpid()}").touch()


def parent(folder: str, fails: int = -1, how: str = "raises") -> Parent:
    """By its own name in settings."""
    return Parent(folder, fails, how)


def started(folder: Path, by: int | str = "*") -> set[int]:
    """Processes that environments started, all or those of one process."""
    return {int(path.suffix[1:]) for path in folder.glob(f"{by}.*.*")}


def left(folder: Path, by: int | str = "*") -> set[str]:
    """Those that live, with what they are."""
    return {path.name for path in folder.glob(f"{by}.*.*") if alive({int(path.suffix[1:])})}


class Closing(Flawed):
    """Its first copy is well-behaved: by that a run sees what the environment is like. The others fail as they are told."""

    made = 0

    def __init__(self, folder: str, fails: str) -> None:
        super().__init__(range(0))
        Closing.made += 1
        self._folder, self._number, self._fails = Path(folder), Closing.made, fails

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if self._number > 2 and self._fails == "reset":
            raise ZeroDivisionError("in reset")
        return super().reset(seed=seed, options=options)

    def close(self) -> None:
        (self._folder / f"closed.{self._number}").touch()
        if self._number > 1 and self._fails == "close":
            raise ZeroDivisionError("in close")
        if self._number > 1 and self._fails == "closing":
            threading.Event().wait()


def closing(folder: str, fails: str) -> Closing:
    """By its own name in settings."""
    return Closing(folder, fails)


class Threaded(Flawed):
    """Starts a thread that never ends, and that Python waits for."""

    def __init__(self) -> None:
        super().__init__(range(0))
        threading.Thread(target=signal.pause).start()


def threaded() -> Threaded:
    """By its own name in settings."""
    return Threaded()
