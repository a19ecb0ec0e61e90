"""What a program costs: CPU seconds and memory of a process and of all that it starts, read from /proc (Linux).

Whoever loses its parent becomes ours (a child subreaper), so that daemons and workers of workers are counted too. A process
that dies takes with it what it used since the last look, a quarter of a second at most.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from pathlib import Path
from typing import Self

TICK = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36
LOOK, WEIGH = 0.25, 1.0
"""Seconds between two readings of CPU time, and of memory, which costs the process a little."""


def adopt_orphans(yes: bool) -> None:
    """Whether the children of those who die below us become ours."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


class Seen:
    """One line of /proc/PID/stat."""

    def __init__(self, pid: int) -> None:
        # the name, in brackets, may hold spaces
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        self.pid, self.parent, self.dead = pid, int(fields[1]), fields[0] in "ZX"
        self.seconds = (int(fields[11]) + int(fields[12])) / TICK
        self.born = int(fields[19])


def descendants(root: int) -> list[Seen]:
    """Everyone below `root`, without itself."""
    everyone: dict[int, list[Seen]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                seen = Seen(int(name))
                everyone.setdefault(seen.parent, []).append(seen)
    found, level = [], [root]
    while level:
        below = [seen for pid in level for seen in everyone.get(pid, [])]
        found += below
        level = [seen.pid for seen in below]
    return found


def memory_of(pid: int) -> tuple[int, int]:
    """Bytes resident, and in proportion: what processes share is shared out between them."""
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        sizes[name] = 1024 * int(rest.split()[0])
    return sizes["Rss"], sizes["Pss"]


def _leave(*_: object) -> None:
    """Through all `with` blocks, so that nobody is left behind."""
    raise SystemExit(128 + signal.SIGTERM)


class Meter:
    """`with Meter() as meter:` watches whatever this process starts inside; after `patience` seconds nobody of them is left."""

    def __init__(self, patience: float = 5.0) -> None:
        self._patience = patience
        self.cpu: list[tuple[float, float]] = []
        """When (time of day), and seconds of CPU so far."""
        self.rss = self.pss = 0
        """Most bytes at once, of all together."""
        self._spent: dict[tuple[int, int], float] = {}
        self._before = {(seen.pid, seen.born) for seen in descendants(os.getpid())}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        adopt_orphans(True)
        self._on_term = signal.signal(signal.SIGTERM, _leave)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        end_all(self._own(), self._patience)
        adopt_orphans(False)
        signal.signal(signal.SIGTERM, self._on_term)

    def _own(self) -> list[Seen]:
        return [seen for seen in descendants(os.getpid()) if (seen.pid, seen.born) not in self._before]

    def _watch(self) -> None:
        weighed = 0.0
        while not self._over.wait(LOOK):
            now, own = time.time(), self._own()
            self._spent |= {(seen.pid, seen.born): seen.seconds for seen in own}
            self.cpu.append((now, sum(self._spent.values())))
            if now - weighed >= WEIGH:
                self._weigh(own)
                weighed = now

    def _weigh(self, own: list[Seen]) -> None:
        sizes = []
        for seen in own:
            with contextlib.suppress(OSError, KeyError, ValueError):  # gone meanwhile
                sizes.append(memory_of(seen.pid))
        self.rss = max(self.rss, sum(rss for rss, _ in sizes))
        self.pss = max(self.pss, sum(pss for _, pss in sizes))


def end_all(left: list[Seen], patience: float) -> None:
    """Those who outlive the program must not weigh on the next one."""
    deadline = time.monotonic() + patience
    alive = {seen.pid for seen in left}
    while alive:
        alive &= {seen.pid for seen in descendants(os.getpid()) if not seen.dead}
        if time.monotonic() > deadline:
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    with contextlib.suppress(ChildProcessError):  # those whom we inherited
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
