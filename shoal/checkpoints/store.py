"""The versions a run can go on from: tensors and counters in, whole checkpoints out, never half of one.

A checkpoint is the folder `<version>/` with `state.safetensors` and `manifest.json`. It is written under a temporary
name, flushed to the disk and renamed: it is there as a whole or not at all. A reader checks every bit of it first.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal.base.errors import InputError, ShoalError
from shoal.base.files import sync_folder
from shoal.checkpoints import manifest as manifests
from shoal.checkpoints.manifest import MANIFEST, STATE, DamageError

if TYPE_CHECKING:
    from torch import Tensor

_VERSION = re.compile(r"(?:\.replaced-)?(\d{10,})")
_TEMPORARY = re.compile(r"\.tmp-(.+)-(\d+)-(?:new|old)-\d+")


@dataclass(frozen=True)
class Checkpoint:
    """One version, checked."""

    version: int
    tensors: dict[str, Tensor]
    meta: dict[str, Any]
    path: Path
    skipped: list[tuple[int, str]] = field(default_factory=list)
    """Newer versions that are damaged, newest first, each with what is wrong with it."""


class CheckpointStore:
    """The checkpoints of one run. One process saves, any may read meanwhile."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        assert keep >= 1
        self.folder, self.keep = folder, keep
        self._remove_stale()

    # ---------------------------------------------------------------- saving

    def save(self, version: int, tensors: dict[str, Tensor], meta: dict[str, Any]) -> Path:
        """Write a checkpoint and remove those beyond `keep`. If it fails, the ones before are as they were."""
        temporary = self._temporary("new", version)
        final = self.folder / f"{version:010d}"
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            self._write(temporary, version, tensors, meta)
            self._place(temporary, final)
            self._prune(version)
        except OSError as error:
            cause = f"{self.folder} cannot be written ({error.strerror})"
            raise ShoalError(
                f"checkpoint {version}: {cause}: make room; the checkpoints before it are whole"
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return final

    def _write(self, folder: Path, version: int, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        import safetensors.torch

        # copies, because safetensors refuses tensors that share memory, as tied weights do
        owned = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        state = safetensors.torch.save(owned)
        _write_durably(folder / STATE, state)
        _write_durably(folder / MANIFEST, manifests.render(manifests.build(version, meta, owned, state)))
        sync_folder(folder)

    def _place(self, temporary: Path, final: Path) -> None:
        """Give a whole checkpoint its name. One that has the name already can be read under another until then."""
        replaced = _replaced(final)
        if final.exists():
            self._remove(replaced)
            os.rename(final, replaced)
        os.rename(temporary, final)
        sync_folder(self.folder)
        self._remove(replaced)

    def _prune(self, saved: int) -> None:
        for version in self.versions()[: -self.keep]:
            if version != saved:
                self._remove_version(version)

    def drop_newer(self, version: int) -> None:
        """Remove what is newer than `version`: the run goes on from there, on another path."""
        for newer in self.versions():
            if newer > version:
                self._remove_version(newer)

    def _remove_version(self, version: int) -> None:
        final = self.folder / f"{version:010d}"
        self._remove(_replaced(final))
        self._remove(final)

    def _remove(self, path: Path) -> None:
        """Take the name away first, so that nobody sees a checkpoint without some of its files."""
        if path.exists():
            away = self._temporary("old", int(path.name.rpartition("-")[2]))
            shutil.rmtree(away, ignore_errors=True)
            os.rename(path, away)
            shutil.rmtree(away)

    def _temporary(self, kind: Literal["new", "old"], version: int) -> Path:
        return self.folder / f".tmp-{platform.node()}-{os.getpid()}-{kind}-{version}"

    def _remove_stale(self) -> None:
        """Remove what processes left behind that died while they saved. One of our own number is a dead one's too."""
        for path in self._entries():
            match = _TEMPORARY.fullmatch(path.name)
            if match and match[1] == platform.node() and (int(match[2]) == os.getpid() or not _is_alive(int(match[2]))):
                shutil.rmtree(path, ignore_errors=True)

    # ---------------------------------------------------------------- reading

    def versions(self) -> list[int]:
        """Every version that is there, whole or not, oldest first."""
        return sorted({int(match[1]) for path in self._entries() if (match := _VERSION.fullmatch(path.name))})

    def latest(self) -> Checkpoint:
        """The newest whole checkpoint; what was passed over on the way is in `skipped`."""
        while True:
            there = self.versions()
            skipped: list[tuple[int, str]] = []
            for version in reversed(there):
                try:
                    return self._read(version, skipped)
                except DamageError as damage:
                    skipped.append((version, str(damage)))
            if there == self.versions():  # else the run went on, and removed what we were about to read
                raise self._none_whole(skipped)

    def _none_whole(self, skipped: list[tuple[int, str]]) -> InputError:
        if not skipped:
            return InputError(f"there is no checkpoint in {self.folder}: the run ended before its first")
        reasons = "; ".join(f"{version}: {reason}" for version, reason in skipped)
        return InputError(f"no checkpoint in {self.folder} is whole: restore one or train anew ({reasons})")

    def load(self, which: Literal["latest"] | int) -> Checkpoint:
        """The newest whole checkpoint, or the one of that version."""
        if which == "latest":
            return self.latest()
        there = self.versions()
        if which not in there:
            raise InputError(f"there is no checkpoint {which} in {self.folder}; {_choices(there)}")
        try:
            return self._read(which, [])
        except DamageError as damage:
            others = _choices(version for version in there if version != which)
            raise InputError(f"checkpoint {which} is damaged: {self._path(which)}: {damage}; {others}") from None

    def _read(self, version: int, skipped: list[tuple[int, str]]) -> Checkpoint:
        import safetensors.torch

        path = self._path(version)
        manifest = manifests.read(_read_bytes(path / MANIFEST), version)
        state = _read_bytes(path / STATE)
        manifests.check_file(manifest, STATE, state)
        tensors = safetensors.torch.load(state)
        if manifests.describe(tensors) != manifest["tensors"]:
            raise DamageError(f"{STATE} holds other tensors than {MANIFEST} names")
        return Checkpoint(version, tensors, manifest["meta"], path, skipped)

    def _path(self, version: int) -> Path:
        """Where a version lies: a save cut short between its two renames left it under the other name."""
        final = self.folder / f"{version:010d}"
        return final if final.exists() else _replaced(final)

    def _entries(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from self.folder.iterdir()


def parse_which(text: str, there: Iterable[int] = ()) -> Literal["latest"] | int:
    """`latest`, `12` or `0000000012`, as a person writes it; `there` are the versions an error may offer."""
    if text == "latest":
        return "latest"
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    raise InputError(f"'{text}' is no checkpoint; {_choices(there)}")


def _choices(versions: Iterable[int]) -> str:
    return f"choose from: {', '.join(['latest', *map(str, versions)])}"


def _replaced(final: Path) -> Path:
    return final.with_name(f".replaced-{final.name}")


def _write_durably(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamageError(f"{path.name} cannot be read ({error.strerror})") from None


def _is_alive(process: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
