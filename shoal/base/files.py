"""Files that are whole or absent, and names that stay in their folder."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from shoal.base.errors import InputError, ShoalError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A name that may become a file or a folder."""


def check_name(key: str, name: str) -> str:
    """A name that may become a folder: letters, digits, `.`, `_`, `-`; never a path."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{key} = '{name}' cannot name a folder: use letters, digits, '.', '_' and '-', starting with a letter or digit"
        )
    return name


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `path` so that a crash leaves the old content or the new, never a part."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def unwritable(path: Path | str, error: OSError) -> ShoalError:
    """What to say where a file of a run cannot be written."""
    remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "look at the disk"
    return ShoalError(f"{path} cannot be written ({error.strerror}): {remedy}, then go on with --resume")


@contextlib.contextmanager
def disk_trouble(folder: Path) -> Iterator[None]:
    """A disk that is full, read-only or broken ends what runs inside with one line. Other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            raise
        raise unwritable(error.filename or folder, error) from error


def list_folder(folder: Path) -> list[Path]:
    """What lies in `folder`; nothing, if it is not there."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ShoalError(f"{folder} cannot be read ({error.strerror}): look at the disk") from error


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
