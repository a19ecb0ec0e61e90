"""How checkpoints come and go: under temporary names, so that nobody ever sees one without some of its files."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from shoal.base.files import list_folder
from shoal.checkpoints.holds import sole
from shoal.checkpoints.tags import Tags

_TEMPORARY = re.compile(r"\.tmp-(.+)-(\d+)-(?:new|old)-\d+(?:-\d+)?")
_numbers = itertools.count()
_in_work: set[Path] = set()
"""Temporary folders that this process is filling."""


class Remover:
    """Temporary folders among the checkpoints in `folder`, and what happens to those nobody needs."""

    def __init__(self, folder: Path, tags: Tags) -> None:
        self._folder, self._tags = folder, tags

    @contextlib.contextmanager
    def temporary(self, version: int) -> Iterator[Path]:
        """An empty folder for a checkpoint to be; what is left of it at the end is removed."""
        path = self._named("new", version)
        _in_work.add(path)
        try:
            path.mkdir(0o700)
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            _in_work.discard(path)

    def take_away(self, path: Path) -> None:
        """Remove a checkpoint; whoever reads it reads on, and its files go when that has ended."""
        if os.path.lexists(path):
            with sole(path) as nobody_reads:
                self.discard(path, keep_files=not nobody_reads)

    def discard(self, path: Path, keep_files: bool = False) -> None:
        """Take the name away, then the files."""
        if os.path.lexists(path):
            away = self._named("old", int(path.name.rpartition("-")[2]))
            os.rename(path, away)
            if not keep_files:
                _remove(away)

    def clean(self) -> None:
        """Remove what processes left behind that died while they saved, and what was read when it had to go."""
        for path in list_folder(self._folder):
            match = _TEMPORARY.fullmatch(path.name)
            if match and match[1] == platform.node() and _is_over(int(match[2])) and path not in _in_work:
                with contextlib.suppress(OSError), sole(path) as nobody_reads:
                    if nobody_reads:
                        _remove(path)
        for path, process in self._tags.leftovers():
            if _is_over(process):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _named(self, kind: str, version: int) -> Path:
        return self._folder / f".tmp-{platform.node()}-{os.getpid()}-{kind}-{version}-{next(_numbers)}"


def _remove(path: Path) -> None:
    """A checkpoint that somebody keeps elsewhere, and linked here, loses its link and no more."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_over(process: int) -> bool:
    """Dead, or ourselves: what has our number was left by a dead one of the same number, or can go by now."""
    with contextlib.suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
    return process == os.getpid()
