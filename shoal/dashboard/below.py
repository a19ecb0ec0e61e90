"""Files below ROOT and nothing else: names in, open files out. Run folders are somebody else's, so no link in them is followed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from shoal.base.errors import InputError
from shoal.base.files import NAME, plain_file
from shoal.monitoring.run_folder import RunFolder

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Stamp = tuple[int, int, int]
"""Of a file: its number, size and time of change. Equal stamps, equal content."""


class Root:
    """The folder with the runs. Whatever it opens lies below it, whatever is renamed meanwhile: it goes from handle to handle."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise InputError(f"there is no folder {path}: give the folder that holds your runs, or train one first")
        self.path = path.resolve()
        self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def folder(self, *names: str) -> Iterator[int]:
        """The handle of a folder below; a name that is none, a link or a missing folder is a FileNotFoundError."""
        handle = os.dup(self._handle)
        try:
            for name in names:
                handle, above = _enter(handle, name), handle
                os.close(above)
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def file(self, *names: str) -> Iterator[BinaryIO]:
        """A regular file below, open to read."""
        with self.folder(*names[:-1]) as folder:
            try:
                handle = plain_file(check_part(names[-1]), os.O_RDONLY, dir_fd=folder)
            except OSError as error:
                raise FileNotFoundError(names[-1]) from error
        with open(handle, "rb") as file:
            yield file

    @contextlib.contextmanager
    def run(self, name: str) -> Iterator[RunFolder]:
        """The run `experiment/trial`, by the handle of its folder: what reads run folders by path reads this one."""
        experiment, _, trial = name.partition("/")
        with self.folder(experiment, trial) as handle:
            yield RunFolder(Path(f"/proc/self/fd/{handle}"))

    def names(self, *names: str, folders: bool) -> list[str]:
        """What lies in a folder, folders or regular files, by names that Shoal gives; nothing where it is missing."""
        with contextlib.suppress(OSError), self.folder(*names) as handle, os.scandir(handle) as entries:
            wanted = [entry for entry in entries if NAME.fullmatch(entry.name)]
            kind = os.DirEntry.is_dir if folders else os.DirEntry.is_file
            return sorted(entry.name for entry in wanted if kind(entry, follow_symlinks=False))
        return []

    def close(self) -> None:
        """Let go of it."""
        os.close(self._handle)


def stamp(folder: int, name: str) -> Stamp | None:
    """Of a regular file in a folder; None where there is none."""
    with contextlib.suppress(OSError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def is_socket(folder: int, name: str) -> bool:
    """A socket of this folder itself, not a way to another."""
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _enter(above: int, name: str) -> int:
    try:
        return os.open(check_part(name), _FOLDER, dir_fd=above)
    except OSError as error:
        raise FileNotFoundError(name) from error


def check_part(name: str) -> str:
    """A name of one file or folder; any other is of nothing."""
    if not NAME.fullmatch(name):
        raise FileNotFoundError(name)
    return name
