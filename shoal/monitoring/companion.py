"""A process beside the main process of a run, for what must neither hold it up nor end with it: lines of JSON to it and from it.

The other end: `answer`. It lives in a process group of its own, since Ctrl-C is for the run alone, and ends when the main process
says so or is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from shoal.base.descendants import kill_tree
from shoal.base.files import make_folder, plain_file
from shoal.monitoring.jsonl import encode_line

START = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"
Said = dict[str, Any]


class Companion:
    """The main process's end. `module` has a `main` that calls `answer`; what it prints goes to `log`."""

    def __init__(self, module: str, order: Said, log: Path) -> None:
        make_folder(log.parent)
        self._selector = selectors.EpollSelector()
        self._socket, there = socket.socketpair()
        code = START.format(path=sys.path, module=module)
        with there, open(log, "ab", opener=plain_file) as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, str(there.fileno())], pass_fds=[there.fileno()], process_group=0,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        self._socket.setblocking(False)
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._heard = b""
        self.lives = True
        """It has not hung up."""
        self._closed = False
        self.send(order)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def fileno(self) -> int:
        """Readable when `poll` has something to tell."""
        return self._selector.fileno()

    def send(self, said: Said) -> None:
        """Tell it something, or not, where it does not listen: never waits."""
        with contextlib.suppress(OSError):
            self._socket.send(encode_line(said))

    def poll(self) -> list[Said]:
        """What it said since. Never waits."""
        while self.lives:
            try:
                part = self._socket.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            if not part:
                self.lives = False
                self._selector.unregister(self._socket)
            self._heard += part
        *lines, self._heard = self._heard.split(b"\n")
        return _parsed(lines)

    def wait(self, seconds: float) -> list[Said]:
        """What it says until it hangs up, or until the time is over."""
        said, deadline = self.poll(), time.monotonic() + seconds
        while self.lives and (left := deadline - time.monotonic()) > 0:
            self._selector.select(left)
            said += self.poll()
        return said

    def close(self) -> None:
        """End it, with all below it, if it has not ended by itself. Again: nothing happens."""
        if self._closed:
            return
        self._closed = True
        self.poll()  # it may have hung up meanwhile
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0 if self.lives else 1.0)
        if self._process.poll() is None:
            kill_tree(self._process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel
                self._process.wait(1.0)
        self._socket.close()
        self._selector.close()


class MainProcess:
    """The companion's end: what the main process says, and whether it is there."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._socket = socket.socket(fileno=int(sys.argv[1]))
        self._lock = threading.Lock()
        self._heard = b""
        self.lives = True
        self.order: Said = json.loads(sys.argv[2]) if len(sys.argv) > 2 else json.loads(self._first_line())

    def _first_line(self) -> bytes:
        """Byte by byte: whoever starts again in this process reads what follows."""
        line = b""
        while not line.endswith(b"\n") and (byte := self._socket.recv(1)):
            line += byte
        return line or b"{}"

    def send(self, said: Said) -> None:
        """Tell it something, from whatever thread."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(encode_line(said))

    def wait(self, seconds: float) -> list[Said]:
        """What it said, as soon as there is something, at most so long. `lives` is False when no more can come."""
        self._socket.settimeout(max(seconds, 1e-3))
        try:
            part = self._socket.recv(1 << 16)
            self.lives = bool(part)
        except TimeoutError:
            part, self.lives = b"", os.getppid() == self._parent  # a fork of it may hold the other end open
        except OSError:
            part, self.lives = b"", False
        *lines, self._heard = (self._heard + part).split(b"\n")
        return _parsed(lines)

    def start_again(self, order: Said) -> None:
        """This process anew, with another order: nothing of the last attempt is left in it."""
        os.set_inheritable(self._socket.fileno(), True)
        os.execv(sys.executable, [*sys.orig_argv[:5], json.dumps(order)])


def _parsed(lines: list[bytes]) -> list[Said]:
    """Those that are whole: who may not wait may send a part of one."""
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def answer(*, niceness: int) -> MainProcess:
    """Be a companion: signals are for the run, whose end is ours; files are for their owner alone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # not ignored: what it starts would inherit that
    os.umask(0o077)
    if len(sys.argv) == 2:  # else it began already
        os.nice(niceness)
    return MainProcess()
