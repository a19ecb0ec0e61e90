"""The folder of a run in two places: what changed in one goes, as data, into the other.

Rows and events go on from where they were left off. A checkpoint travels whole, and never before the rows that were written until
it was saved; where it arrives it is there as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shoal.base.errors import InputError
from shoal.base.files import make_folder, plain_file, write_atomic
from shoal.checkpoints.identity import IDENTITY
from shoal.checkpoints.manifest import MANIFEST
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.run_folder import RunFolder

TAIL = 4096
"""Bytes at the end of what was sent that must still be there for the file to have grown, and not to be another."""


class Parcel(NamedTuple):
    """What changed in a folder."""

    files: dict[str, tuple[int, bytes]] = {}
    """Path below the folder -> from which byte on it consists of which."""
    removed: tuple[str, ...] = ()
    checkpoints: dict[int, dict[str, bytes]] = {}
    """Version -> its files."""


class _Sent(NamedTuple):
    inode: int
    size: int
    changed: int
    """When, in nanoseconds."""
    tail: bytes


class Outgoing:
    """What of a run's folder the other side does not have. At first that side has what is there now."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._sent: dict[str, _Sent] = {}
        self._versions: dict[int, tuple[int, int]] = {}
        self.collect()

    def collect(self) -> Parcel:
        """All that changed since the last time."""
        checkpoints = self._saved()  # first: rows are never behind a checkpoint
        there = dict(_files(self._folder.path))
        removed = tuple(name for name in self._sent if name not in there)
        for name in removed:
            del self._sent[name]
        found = {}
        for name, path in there.items():
            with contextlib.suppress(FileNotFoundError):  # replaced by another just now
                if (change := self._change(name, path)) is not None:
                    found[name] = change
        return Parcel(found, removed, checkpoints)

    def _saved(self) -> dict[int, dict[str, bytes]]:
        store, found = CheckpointStore(self._folder.checkpoints), {}
        for version in store.versions():
            with contextlib.suppress(FileNotFoundError, InputError):  # removed meanwhile: one too many
                stat = (store.path(version) / MANIFEST).stat()
                stamp = stat.st_ino, stat.st_mtime_ns
                if self._versions.get(version) != stamp:
                    found[version] = store.files(version)
                    self._versions[version] = stamp
        return found

    def _change(self, name: str, path: Path) -> tuple[int, bytes] | None:
        last = self._sent.get(name)
        with open(path, "rb", opener=plain_file) as file:
            stat, begin = os.fstat(file.fileno()), 0
            if last is not None and last[:3] == (stat.st_ino, stat.st_size, stat.st_mtime_ns):
                return None
            if last is not None and last.inode == stat.st_ino and stat.st_size >= last.size:
                file.seek(last.size - len(last.tail))
                begin = last.size if file.read(len(last.tail)) == last.tail else 0
            file.seek(begin)
            raw = file.read()
        before = last.tail if last is not None and begin else b""
        self._sent[name] = _Sent(stat.st_ino, begin + len(raw), stat.st_mtime_ns, (before + raw)[-TAIL:])
        return (begin, raw) if raw or not begin else None


def departure(folder: RunFolder) -> Parcel:
    """All that a run goes on from: of its checkpoints the newest whole one, and those with a tag. Without any it begins anew."""
    store = CheckpointStore(folder.checkpoints)
    versions = store.versions()
    if not versions:
        shutil.rmtree(folder.path, ignore_errors=True)
        return Parcel()
    whole = next((version for version in reversed(versions) if store.inspect(version)[1] is None), None)
    needed = versions if whole is None else sorted({whole, *store.tags().values()} & set(versions))
    films = folder.videos.name
    files = {name: (0, path.read_bytes()) for name, path in _files(folder.path) if name.split("/")[0] != films}
    found = {}
    for version in needed:
        with contextlib.suppress(InputError):  # a damaged one
            found[version] = store.files(version)
    return Parcel(files, checkpoints=found)


def take_in(folder: RunFolder, parcel: Parcel, keep: int) -> None:
    """Bring a folder to where the other is. Of checkpoints, so many without a tag stay."""
    for name, (begin, raw) in parcel.files.items():
        path = folder.path / name
        make_folder(path.parent)
        if begin:
            with open(path, "rb+", opener=plain_file) as file:
                file.truncate(begin)
                file.seek(begin)
                file.write(raw)
        else:
            write_atomic(path, raw)
    for name in parcel.removed:
        (folder.path / name).unlink(missing_ok=True)
    store = CheckpointStore(folder.checkpoints, keep)
    for version, files in sorted(parcel.checkpoints.items()):
        store.adopt(version, files)


def _files(folder: Path, below: str = "") -> Iterator[tuple[str, Path]]:
    """All plain files that are of the run itself: no locks, no sockets, nothing that is just being written. No checkpoints."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder / below) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.name.startswith(".") or (below == "checkpoints" and entry.name not in (IDENTITY, "tags")):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(folder, name)
            elif entry.is_file(follow_symlinks=False):
                yield name, folder / name
