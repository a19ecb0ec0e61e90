"""Ray opens its own folder to all users of a machine, and who can write there can run code as its user. So it lies in a closed one.

A Ray of our own gets such a folder, with a token; in a cluster that is joined it is looked for.
"""

from __future__ import annotations

import os
import platform
import secrets
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shoal.base.errors import InputError
from shoal.launchers.ray import keeper

TRUST = "SHOAL_TRUST_LOCAL_USERS"
"""Set to 1: whoever has an account on a machine of the cluster may run code as us."""
TOKEN = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
SHORT = 25
"""Characters of a temporary directory in which Ray's sockets have room: they add 81, and the kernel allows 107."""
ENDING = 15.0
"""Seconds until nothing is left of a Ray of our own."""


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for a Ray of our own, which only its user may enter. It is gone after this block, or when this process is killed."""
    system = (
        tempfile.gettempdir()
    )  # Python remembers the first answer: it must not be the folder below, which goes again
    base = os.environ.get("RAY_TMPDIR") or system
    name = tempfile.mkdtemp(prefix="shoal-", dir=base if len(base) <= SHORT else "/tmp")  # mode 0700
    command = [sys.executable, "-I", "-S", keeper.__file__, name, str(os.getpid())]
    kept = subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/", start_new_session=True)  # Ctrl-C is not for it
    (Path(name) / "tmp").mkdir()
    variables = {"TMPDIR": f"{name}/tmp"}  # for what workers leave behind
    if not any(token in os.environ for token in TOKEN):
        variables["RAY_AUTH_TOKEN_PATH"] = str(_write_token(Path(name)))
    try:
        with _environment(variables):
            yield Path(name)
    finally:
        with suppress(subprocess.TimeoutExpired):
            kept.communicate(timeout=ENDING)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _write_token(folder: Path) -> Path:
    """Who talks to Ray must know it."""
    path = folder / "token"
    path.touch(0o600)
    path.write_text(secrets.token_hex(32))
    return path


def check_session() -> None:
    """Refuse a Ray whose folder on this machine others may change, unless its user said that they may."""
    if (problem := exposure()) is not None:
        raise InputError(problem)


def exposure() -> str | None:
    """What is wrong with Ray's folder on this machine, in one line with the remedy; None: nothing, or it is allowed."""
    import ray

    if os.environ.get(TRUST) == "1":
        return None
    if (folder := exposed(Path(ray.get_runtime_context().get_temp_dir()))) is None:
        return None
    return (
        f"other users of {platform.node()} can write to {folder}, where Ray keeps its session, and so run code as you: "
        f"start Ray below a folder of mode 0700 (mkdir -m 700 /tmp/ray-$USER; export RAY_TMPDIR=/tmp/ray-$USER), "
        f"or set {TRUST}=1 where you trust them all"
    )


def exposed(folder: Path) -> Path | None:
    """The folder on the way to Ray's that others can change; None: one above it lets only us in. Ray opens its own ever again."""
    folder, us = folder.resolve(), os.geteuid()
    for path in reversed(folder.parents):
        found = path.stat()
        if found.st_uid == us and not found.st_mode & 0o077:
            return None
        writable = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if found.st_uid not in (us, 0) or writable:
            return path
    return folder
