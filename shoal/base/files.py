"""Files that are whole or absent, private and plain; names that stay in their folder."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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


def plain_file(path: str | Path, flags: int, dir_fd: int | None = None) -> int:
    """An opener for `open`: regular files only, since a link may lead elsewhere, and a pipe or a device block for ever.

    A new file is for its owner alone, whatever the umask.
    """
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(error.errno, _IRREGULAR, str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, _IRREGULAR, str(path))
    return handle


_IRREGULAR = "it is no regular file"


def read_small(path: Path) -> bytes:
    """All of a file that nobody has reason to make large."""
    with open(path, "rb", opener=plain_file) as file:
        return read_limited(file)


def read_limited(file: BinaryIO) -> bytes:
    """What is left of an open file, unless it is far too much."""
    raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST >> 20} MB")
    return raw


LARGEST = 64 << 20


def make_folder(path: Path) -> None:
    """With those around it that are missing; what is made is for its owner alone, whatever the umask."""
    for parent in reversed([each for each in path.parents if not each.exists()]):
        parent.mkdir(0o700, exist_ok=True)
    path.mkdir(0o700, exist_ok=True)


def private_folder(name: str) -> Path:
    """A folder of this user's for temporary files, by a name that is the same in all processes. Another user's is not taken."""
    import tempfile

    path = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ShoalError(f"{path} is not a folder of yours alone: remove it, or set TMPDIR to a folder of your own")
    return path


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `path` so that a crash leaves the old content or the new, never a part."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb", opener=plain_file) as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def as_typed(path: Path) -> Path:
    """As a person would type it here: below the current folder without it, elsewhere in full."""
    with contextlib.suppress(OSError, ValueError):  # the current folder is gone, or is not around it
        return path.relative_to(Path.cwd())
    return path


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
