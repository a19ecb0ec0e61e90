"""`shoal train --detach` on this machine: the run goes on in a session of its own, and no terminal that closes ends it."""

from __future__ import annotations

import itertools
import os
import secrets
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shoal.base.descendants import adopt_orphans
from shoal.base.errors import EXIT_FAILED
from shoal.base.files import as_typed, disk_trouble, make_folder, plain_file
from shoal.cli.output import command, tell
from shoal.monitoring.run_folder import RunFolder

LOOK = 0.1
"""Seconds between two looks at what the run has said so far."""


def leave(root: Path) -> Callable[[Path], None]:
    """Go on as another process, to train in; what it returns there is to be called once the run has begun.

    The command itself shows on stderr what is said until then, and ends: well, or as the run ended that never began. Called before
    anything starts a thread. What the run and its processes print goes to a file below `root`, which moves into the run folder.
    """
    missing = not root.exists()
    with disk_trouble(root):
        make_folder(root)
        output = root / f".starting-{secrets.token_hex(4)}.log"
        log = plain_file(output, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(write)
        begun = _show(process, read, log)
        if begun is None:
            output.unlink(missing_ok=True)
            if missing:
                with suppress(OSError):  # somebody else has used it meanwhile
                    root.rmdir()
            sys.exit(_exit_code(process))
        _say(process, *map(Path, begun.split("\n")))
        sys.exit()
    os.close(read)
    _leave_terminal(log)

    def say_begun(folder: Path) -> None:
        kept = _free_name(RunFolder(folder).logs)
        output.rename(kept)
        with suppress(OSError):  # the terminal, and the command with it, may be gone already
            os.write(write, f"{folder}\n{kept}".encode())
        os.close(write)

    return say_begun


def _leave_terminal(log: int) -> None:
    os.setsid()
    adopt_orphans()  # which no process inherits
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(handle, number)
    os.close(nothing)
    os.close(log)


def _free_name(logs: Path) -> Path:
    """A run that is resumed has an output for each time."""
    names = itertools.chain(["output.log"], (f"output-{number}.log" for number in itertools.count(2)))
    return next(path for name in names if not (path := logs / name).exists())


# ---------------------------------------------------------------- in the command


def _show(process: int, pipe: int, log: int) -> str | None:
    """Pass on what is said until the run has begun, and what it says of that; None: it ended first."""
    shown = 0
    while True:
        try:
            over = bool(select.select([pipe], [], [], LOOK)[0])
            while said := os.pread(log, 65536, shown):
                shown += len(said)
                sys.stderr.write(said.decode(errors="replace"))
            sys.stderr.flush()
            if over:
                return os.read(pipe, 65536).decode() or None
        except KeyboardInterrupt:
            os.kill(process, signal.SIGINT)


def _exit_code(process: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code >= 0:
        return code
    print(f"shoal: the run was ended by {signal.Signals(-code).name} before it began", file=sys.stderr)
    return EXIT_FAILED


def _say(process: int, folder: Path, output: Path) -> None:
    folder, output = as_typed(folder), as_typed(output)
    tell(
        f"left to itself: {folder}    process: {process}    output: {output}",
        f"look at it: {command()} status {folder}    end it: {command()} stop {folder}",
    )
