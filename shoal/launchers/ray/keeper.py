"""What outlives the driver of a Ray of our own: it ends what is left of that Ray, and removes its folder.

`python keeper.py FOLDER DRIVER`, with a pipe from the driver as its input: that ends when the driver does, however it ends.
It imports nothing of ours: it has to be there before anything else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ATTEMPTS = 200
PAUSE = 0.05
"""Seconds between two attempts: a process that was killed may still write for a moment."""


def users_of(folder: str) -> Iterator[int]:
    """The processes that have a file in `folder` open: each process of Ray has its log there."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or it is somebody else's
            if any(os.readlink(handle).startswith(f"{folder}/") for handle in (process / "fd").iterdir()):
                yield int(process.name)


def clear(folder: str, driver: int) -> None:
    """Until nobody but the driver uses the folder, and it is gone."""
    for _ in range(ATTEMPTS):
        for process in users_of(folder):
            if process != driver:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(PAUSE)


if __name__ == "__main__":
    sys.stdin.read()
    clear(sys.argv[1], int(sys.argv[2]))
