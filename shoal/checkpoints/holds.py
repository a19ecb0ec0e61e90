"""Who reads a checkpoint, and who may remove it.

A reader holds a shared lock on its manifest, a remover asks for an exclusive one and leaves alone what it does not get. The kernel
lets go when a process dies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from shoal.base.files import plain_file
from shoal.checkpoints.manifest import MANIFEST, DamageError

_WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems say that know no locks: there, nobody can tell who reads."""

_WITHOUT_MANIFEST = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL)
"""What is said where a regular file should be and is not."""


class RemovedError(Exception):
    """The checkpoint is not there, or is just being removed."""


class Held:
    """The folder of a checkpoint, open: its files can be read whatever it is renamed to, and nobody removes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.ExitStack() as stack:
            try:
                self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                raise RemovedError from None
            except OSError as error:
                raise DamageError(f"{path.name} cannot be read ({error.strerror})") from None
            stack.callback(os.close, self._folder)
            self.manifest = stack.enter_context(self.open(MANIFEST))
            if not _locked(self.manifest.fileno(), fcntl.LOCK_SH) or os.fstat(self.manifest.fileno()).st_nlink == 0:
                raise RemovedError
            self._stack = stack.pop_all()

    def open(self, name: str) -> BufferedReader:
        """A file of it, for reading."""
        try:
            return open(name, "rb", opener=lambda name, flags: plain_file(name, flags, self._folder))
        except OSError as error:
            raise DamageError(f"{name} cannot be read ({error.strerror})") from None

    def close(self) -> None:
        """Let go."""
        self._stack.close()


@contextlib.contextmanager
def sole(path: Path) -> Iterator[bool]:
    """Whether nobody reads the checkpoint at `path`, and nobody begins to while this lasts."""
    try:
        handle = plain_file(path / MANIFEST, os.O_RDWR)
    except PermissionError:
        yield False
        return
    except OSError as error:
        if error.errno not in _WITHOUT_MANIFEST:
            raise
        yield True  # nobody can read one without a manifest
        return
    try:
        yield _locked(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)


def _locked(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
    return True
