"""Runs `ray start` in several hosts at once, and imports Ray only once: half of a node's start-up is that import.

In: the first argument, JSON: a list of {"pid": number 1 of the host, "argv": [...], "env": {...}, "log": path}.
Out: exit code 0 when every `ray start` has ended well; what they said is in the logs.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from typing import Any

_SPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # mount, uts, ipc, pid, net


def main(nodes: list[dict[str, Any]]) -> int:
    from ray.scripts import scripts

    def start(node: dict[str, Any]) -> int:
        folder = os.getcwd()
        _enter(node["pid"])
        return _wait(_fork(lambda: _run(scripts.cli, node, folder)))  # only a child is in the new process table

    started = [_fork(lambda node=node: start(node)) for node in nodes]
    return max(_wait(pid) for pid in started)


def _fork(work: Callable[[], int]) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        code = work()
    finally:
        os._exit(code)


def _wait(pid: int) -> int:
    return abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(os.pidfd_open(pid), _SPACES):
        raise OSError(ctypes.get_errno(), "setns")


def _run(cli: Callable[..., None], node: dict[str, Any], folder: str) -> int:
    os.chdir(folder)
    os.environ.update(node["env"])
    log = os.open(node["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        cli(node["argv"])
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
