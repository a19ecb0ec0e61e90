"""The versions a run can go on from: tensors and counters in, whole checkpoints out, never half of one.

A checkpoint is the folder `<version>/` with `state.safetensors`, whatever else was given, and `manifest.json`. It is written under
a temporary name, flushed to the disk and renamed: it is there as a whole or not at all. A reader checks every bit of what it reads.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.base.errors import InputError, ShoalError
from shoal.base.files import (
    as_typed,
    check_name,
    list_folder,
    make_folder,
    plain_file,
    sync_folder,
)
from shoal.base.table import did_you_mean
from shoal.checkpoints import manifest as manifests
from shoal.checkpoints.checkpoint import Checkpoint, Skipped, read_manifest, reading
from shoal.checkpoints.holds import Held, RemovedError, sole
from shoal.checkpoints.identity import known_identity, make_identity
from shoal.checkpoints.manifest import MANIFEST, STATE, DamageError
from shoal.checkpoints.parts import check, read_tensors, write_tensors
from shoal.checkpoints.removing import Remover
from shoal.checkpoints.tags import LATEST, Tags, check_tag
from shoal.monitoring.logs import LOG

if TYPE_CHECKING:
    from torch import Tensor

_VERSION = re.compile(r"(?:\.replaced-)?(\d{10,})")


class CheckpointStore:
    """The checkpoints of one run. One process saves, any may read and tag meanwhile."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        assert keep >= 1
        self.folder, self.keep = folder, keep
        self._tags = Tags(folder / "tags")
        self._remover = Remover(folder, self._tags)
        self._remover.clean()

    # ---------------------------------------------------------------- saving

    def save(
        self, version: int, tensors: dict[str, Tensor], meta: dict[str, Any],
        extras: dict[str, dict[str, Tensor]] | None = None,
    ) -> Path:  # fmt: skip
        """Write a checkpoint and remove those beyond `keep`. If it fails, the ones before are as they were.

        `extras` are files of their own, `name.safetensors` -> tensors: large parts that not every reader wants.
        """
        final = self._final(version)
        files = {STATE: tensors, **{_check_extra(name): part for name, part in (extras or {}).items()}}
        try:
            self._make_folder()
            with self._remover.temporary(version) as temporary:
                self._write(temporary, version, files, meta)
                self._place(temporary, final)
        except OSError as error:
            cause = f"{as_typed(self.folder)} cannot be written ({error.strerror})"
            raise ShoalError(
                f"checkpoint {version}: {cause}: make room; the checkpoints before it are whole"
            ) from error
        self._tidy(version)
        return final

    def adopt(self, version: int, files: dict[str, bytes]) -> None:
        """Take in a checkpoint of this run that was written elsewhere, its files as they are; remove those beyond `keep`."""
        self._make_folder()
        with self._remover.temporary(version) as temporary:
            for name, raw in files.items():
                with open(temporary / check_name("checkpoint file", name), "xb", opener=plain_file) as file:
                    file.write(raw)
                    file.flush()
                    os.fsync(file.fileno())
            sync_folder(temporary)
            self._place(temporary, self._final(version))
        self._tidy(version)

    def files(self, version: int) -> dict[str, bytes]:
        """Name -> content of all that belongs to a version, for `adopt` elsewhere."""
        with self.hold(version) as held:
            try:
                names = [MANIFEST, *read_manifest(held, version)["files"]]
                return {name: _content(held, name) for name in names}
            except DamageError as damage:
                raise self._damaged(version, damage) from None

    def _make_folder(self) -> None:
        if not self.folder.is_dir():
            make_folder(self.folder)
            sync_folder(self.folder.parent)

    def _write(self, folder: Path, version: int, files: dict[str, dict[str, Tensor]], meta: dict[str, Any]) -> None:
        entries = {name: write_tensors(folder / name, tensors) for name, tensors in files.items()}
        run = known_identity(self.folder) or make_identity(
            self.folder, (self._peek(older).get("run", "") for older in reversed(self.versions()))
        )
        with open(folder / MANIFEST, "xb", opener=plain_file) as file:
            file.write(manifests.sealed(manifests.build(version, meta, entries, run)))
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)

    def _place(self, temporary: Path, final: Path) -> None:
        """Give a whole checkpoint its name. One that has the name already can be read under another until then."""
        replaced = _replaced(final)
        if os.path.lexists(final):
            self._remover.take_away(replaced)
            os.rename(final, replaced)
        os.rename(temporary, final)
        sync_folder(self.folder)
        self._remover.take_away(replaced)

    # ---------------------------------------------------------------- removing

    def _tidy(self, saved: int) -> None:
        try:
            self._restore_replaced()
            self._prune(saved)
            self._remover.clean()
        except OSError as error:
            raise ShoalError(
                f"checkpoint {saved} is saved, but {as_typed(self.folder)} cannot be tidied up ({error.strerror}): look at the disk"
            ) from error

    def _restore_replaced(self) -> None:
        """A save that was cut short while it replaced a checkpoint left the old one under its other name: alone, or too."""
        for version in self.versions():
            final, replaced = self._final(version), _replaced(self._final(version))
            if final.exists():
                self._remover.take_away(replaced)
            else:
                os.rename(replaced, final)

    def _prune(self, saved: int) -> None:
        """Remove untagged ones beyond `keep`, but for those that somebody reads: their turn comes the next time."""
        untagged = self._untagged()
        for version in untagged[: -self.keep]:
            path = self.path(version)
            with sole(path) as nobody_reads:
                # whoever gives a tag holds the checkpoint meanwhile, so now it is known for certain
                if version != saved and nobody_reads and version in self._untagged():
                    self._remover.take_away(_replaced(self._final(version)))
                    self._remover.discard(path)

    def _untagged(self) -> list[int]:
        """The versions without a tag; none if a tag cannot be read: then nobody knows, and nothing must go."""
        tags, damaged = self._tags.read()
        for reason in damaged.values():
            LOG.warning("%s: no checkpoint is removed until that tag is set anew or removed", reason)
        return [] if damaged else [version for version in self.versions() if version not in tags.values()]

    def drop_newer(self, version: int) -> list[str]:
        """Remove what is newer than `version`, and its tags: the run goes on from there, on another path. Returns those tags."""
        lost = sorted(name for name, tagged in self.tags().items() if tagged > version)
        for name in lost:
            self._tags.remove(name)
        try:
            for newer in (newer for newer in self.versions() if newer > version):
                self._remover.take_away(_replaced(self._final(newer)))
                self._remover.take_away(self._final(newer))
        except OSError as error:
            raise ShoalError(
                f"checkpoints after {version} cannot be removed from {as_typed(self.folder)} ({error.strerror}): look at the disk"
            ) from error
        return lost

    # ---------------------------------------------------------------- tags

    def tag(self, name: str, version: int) -> None:
        """Give a version a name of its own; a tagged one is never removed. Whoever had the name before loses it."""
        check_tag(name)
        with self.hold(version) as held:
            try:
                read_manifest(held, version)
            except DamageError as damage:
                raise self._damaged(version, damage) from None
            self._tags.write(name, version)

    def untag(self, name: str) -> None:
        """Take a name away; the version stays until it is one too many."""
        self._tags.remove(check_tag(name))

    def tags(self) -> dict[str, int]:
        """Name -> version, of all tags that are whole."""
        return self._tags.read()[0]

    def damaged_tags(self) -> dict[str, str]:
        """Name -> what is wrong, of the others."""
        return self._tags.read()[1]

    # ---------------------------------------------------------------- reading

    def versions(self) -> list[int]:
        """Every version that is there, whole or not, oldest first."""
        found = ((path, _VERSION.fullmatch(path.name)) for path in list_folder(self.folder))
        return sorted({int(match[1]) for path, match in found if match and path.is_dir()})

    @contextlib.contextmanager
    def hold(self, version: int) -> Iterator[Held]:
        """While entered, nobody removes that checkpoint: for those that come back to it."""
        try:
            held = self._hold(version)
        except RemovedError:
            raise self._missing(version) from None
        except DamageError as damage:
            raise self._damaged(version, damage) from None
        with contextlib.closing(held):
            yield held

    def _hold(self, version: int) -> Held:
        final = self._final(version)
        for path in (final, _replaced(final), final):  # a save may rename it between two looks
            with contextlib.suppress(RemovedError):
                return Held(path)
        raise RemovedError

    def latest(self) -> Checkpoint:
        """The newest checkpoint of which every file is whole, to go on from; what was passed over on the way is in `skipped`."""
        return self._newest(self._read_whole)

    def _newest(self, read: Callable[[int], Checkpoint]) -> Checkpoint:
        while True:
            there = self.versions()
            skipped: list[Skipped] = []
            for version in reversed(there):
                try:
                    return replace(read(version), skipped=skipped)
                except DamageError as damage:
                    skipped.append(Skipped(version, str(damage), self._peek(version)["meta"].get("steps")))
                except RemovedError:  # the run went on, and removes what we were about to read
                    continue
            if there == self.versions():
                raise self._none_whole(skipped)

    def load(self, which: str | int) -> Checkpoint:
        """The newest with a whole state (`latest`), or the one of that tag or version."""
        if which == LATEST:
            return self._newest(self._read)
        version = self._tagged_as(which) if isinstance(which, str) else which
        try:
            return self._read(version)
        except RemovedError:
            raise self._missing(version) from None
        except DamageError as damage:
            raise self._damaged(version, damage) from None

    def _tagged_as(self, name: str) -> int:
        try:
            return self._tags.version(check_tag(name))
        except FileNotFoundError:
            raise InputError(f"there is no tag '{name}' in {as_typed(self.folder)}; {self._available(name)}") from None
        except DamageError as damage:
            raise InputError(
                f"the tag '{name}' is damaged: {as_typed(self.folder)}: {damage}: set it anew, or remove it"
            ) from None

    def _read(self, version: int) -> Checkpoint:
        with contextlib.closing(self._hold(version)) as held:
            return self._open(held, version, self._manifest(held, version))

    def _read_whole(self, version: int) -> Checkpoint:
        with contextlib.closing(self._hold(version)) as held:
            manifest = self._manifest(held, version)
            self._check_files(held, manifest, but=STATE)
            return self._open(held, version, manifest)

    def _open(self, held: Held, version: int, manifest: dict[str, Any]) -> Checkpoint:
        with reading(STATE), held.open(STATE) as file:
            tensors = read_tensors(file, STATE, manifest["files"][STATE])
        return Checkpoint(version, tensors, manifest, held.path)

    def _manifest(self, held: Held, version: int) -> dict[str, Any]:
        """Checked, and of this run: one of another may fit as well, and would be taken for what was learned here."""
        manifest = read_manifest(held, version)
        run = known_identity(self.folder)
        if run and manifest.get("run", run) != run:
            raise DamageError(f"{MANIFEST} is of another run: it was copied here")
        return manifest

    def _peek(self, version: int) -> dict[str, Any]:
        """Its manifest, as far as it can be read."""
        with contextlib.suppress(InputError, DamageError), self.hold(version) as held:
            return read_manifest(held, version)
        return {"meta": {}}

    def _check_files(self, held: Held, manifest: dict[str, Any], but: str = "") -> None:
        for name, entry in manifest["files"].items():
            if name != but:
                with reading(name), held.open(name) as file:
                    check(file, name, entry)

    def inspect(self, version: int) -> tuple[dict[str, Any] | None, str | None]:
        """The manifest of a version, if it can be read, and what is wrong with any of its files. Reads every bit of it."""
        manifest = None
        try:
            with contextlib.closing(self._hold(version)) as held:
                manifest = self._manifest(held, version)
                self._check_files(held, manifest)
        except RemovedError:
            return None, "it was removed meanwhile"
        except (DamageError, InputError) as damage:
            return manifest, str(damage)
        return manifest, None

    def _final(self, version: int) -> Path:
        return self.folder / f"{version:010d}"

    def path(self, version: int) -> Path:
        """Where a version lies: a save cut short between its two renames left it under the other name."""
        final = self._final(version)
        return final if final.exists() else _replaced(final)

    # ---------------------------------------------------------------- what is said

    def _missing(self, version: int) -> InputError:
        return InputError(f"there is no checkpoint {version} in {as_typed(self.folder)}; {self._available()}")

    def _damaged(self, version: int, damage: DamageError) -> InputError:
        others = self._available(but=version)
        return InputError(f"checkpoint {version} is damaged: {as_typed(self.path(version))}: {damage}; {others}")

    def _none_whole(self, skipped: list[Skipped]) -> InputError:
        if not skipped:
            return InputError(
                f"there is no checkpoint in {as_typed(self.folder)} yet: a run that goes on saves one at every checkpoint.every; "
                "one that ended before its first has to be trained again"
            )
        reasons = "; ".join(f"{each.version}: {each.damage}" for each in skipped)
        return InputError(f"no checkpoint in {as_typed(self.folder)} is whole: restore one or train anew ({reasons})")

    def _available(self, word: str = "", but: int | None = None) -> str:
        return _available(word, (version for version in self.versions() if version != but), self._tags.names())


def parse_which(text: str, there: Iterable[int] = (), tags: Iterable[str] = ()) -> str | int:
    """`latest`, `best`, `12` or `0000000012`, as a person writes it; `there` and `tags` are what an error may offer."""
    tags = list(tags)
    if text == LATEST or text in tags:
        return text
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    raise InputError(f"'{text}' is no checkpoint; {_available(text, there, tags)}")


def _available(word: str, versions: Iterable[int], tags: Iterable[str]) -> str:
    names = [LATEST, *tags]
    guess = did_you_mean(word, names)
    everything = f"choose from: {', '.join([*names, *map(str, versions)])}"
    return f"{guess} ({everything})" if guess.startswith("did") else everything


def _content(held: Held, name: str) -> bytes:
    with held.open(name) as file:
        return file.read()


def _check_extra(name: str) -> str:
    if name in (STATE, MANIFEST):
        raise InputError(f"'{name}' is no name for a file beside it: choose another")
    return check_name("checkpoint file", name)


def _replaced(final: Path) -> Path:
    return final.with_name(f".replaced-{final.name}")
