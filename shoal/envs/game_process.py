"""A game that runs as a process of its own: started, watched, measured and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from shoal.base.descendants import below, kill_group, kill_tree
from shoal.base.errors import InputError, ShoalError
from shoal.base.files import make_folder
from shoal.base.table import user_path
from shoal.envs.capped_log import CappedLog

PAGE = os.sysconf("SC_PAGE_SIZE")
GRACE = 2.0
"""Seconds that a game has to end by itself, once it is told to."""
LOOPBACK = "localhost,127.0.0.1"


class GameError(ShoalError):
    """A game crashed, hung or said what cannot be understood: it may be started anew."""


def find_game_file(env_id: str, path: str, suffixes: tuple[str, ...]) -> Path:
    """The executable that an id names, from the folder in which the run was started."""
    found = next((p for suffix in ("", *suffixes) if (p := user_path(path + suffix)).is_file()), None)
    if found is None:
        raise InputError(f"env.id = '{env_id}': there is no file '{path}'; name the executable of the game")
    if not os.access(found, os.X_OK):
        raise InputError(f"env.id = '{env_id}': '{path}' may not be executed: chmod +x {path}")
    return found.absolute()


def environment_of(changes: dict[str, str | None]) -> dict[str, str]:
    """That of this process, with `changes` (None: without it), and no proxy between the game and its trainer."""
    variables = dict(os.environ)
    for key in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        if key != "no_grpc_proxy" or key in variables:
            variables[key] = ",".join(part for part in (variables.get(key, ""), LOOPBACK) if part)
    for key, value in changes.items():
        variables.pop(key, None)
        if value is not None:
            variables[key] = value
    return variables


def log_path(folder: str | None, file: Path, name: str, start: int) -> Path | None:
    """Where the log of one start of a game goes; None: nowhere. `name` ends with its number; others may use the folder too."""
    if folder is None:
        return None
    return Path(folder).absolute() / f"{file.stem}-{name.rpartition(' ')[2]}-{os.getpid()}-{start}.log"


class GameProcess:
    """One running game. It gets a process group of its own: an interrupt of the terminal is not for it."""

    def __init__(
        self, command: list[str], name: str, variables: dict[str, str], log: Path | None, log_limit: int
    ) -> None:
        self.name, self._path = name, log
        if log is not None:
            make_folder(log.parent)
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=variables,
                process_group=0,
            )  # fmt: skip
        except OSError as error:
            raise ShoalError(f"{name} does not start: {error.strerror}: {command[0]}") from error
        assert self._process.stdout is not None
        self._log = CappedLog(self._process.stdout, log, log_limit)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def check(self, patience: float = 0.0) -> None:
        """GameError if it has ended, or does so within `patience` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        code = self._process.returncode
        if code is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise self.failure(f"the game {how}")

    def failure(self, why: str) -> GameError:
        """With the end of what it printed."""
        tail = self._log.tail()
        more = f" (more in {self._path})" if self._path is not None and tail else ""
        return GameError(f"{self.name}: {why}; " + (f"its log ends: {tail}{more}" if tail else "its log is empty"))

    def usage(self) -> tuple[int, int]:
        """Threads and bytes of memory, with all processes below it."""
        threads = memory = 0
        for process in (self.pid, *below(self.pid)):
            with contextlib.suppress(OSError, IndexError, ValueError):
                memory += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
                threads += len(os.listdir(f"/proc/{process}/task"))
        return threads, memory

    def close(self, grace: float = GRACE) -> None:
        """Wait for its end, then see to it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        if self._process.poll() is None:
            kill_tree(self.pid)
            self._process.wait(GRACE)
        kill_group(self.pid)  # what it started
        self._log.close()
