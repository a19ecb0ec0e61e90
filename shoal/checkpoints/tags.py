"""Names for checkpoints: `best`, and whatever people call theirs. Names and versions in, small files out.

A tag is the file `tags/<name>`, written whole or not at all; like a manifest it proves itself, so that a tag never means another
version than the one it was given to.
"""

from __future__ import annotations

import re
from pathlib import Path

from shoal.base.errors import InputError, ShoalError
from shoal.base.files import NAME, as_typed, check_name, list_folder, make_folder, read_small, sync_folder, write_atomic
from shoal.base.table import did_you_mean
from shoal.checkpoints.manifest import DamageError, proven, sealed

LATEST = "latest"
_TEMPORARY = re.compile(r"\..+\.(\d+)\.tmp")


def check_tag(name: str) -> str:
    """A name that no version has, and not `latest`."""
    if name == LATEST:
        raise InputError(f"the tag '{LATEST}' is always that of the newest whole checkpoint: choose another name")
    if name.isdecimal():
        raise InputError(f"the tag '{name}' would be mistaken for a version: choose a name with a letter in it")
    return check_name("tag", name)


class Tags:
    """The tags of one run. Any process may set them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """All there are, whole or not."""
        return [path.name for path in list_folder(self.folder) if NAME.fullmatch(path.name)]

    def read(self) -> tuple[dict[str, int], dict[str, str]]:
        """Name -> version of those that are whole, and name -> what is wrong of those that are not."""
        whole: dict[str, int] = {}
        damaged: dict[str, str] = {}
        for name in self.names():
            try:
                whole[name] = self.version(name)
            except FileNotFoundError:  # removed meanwhile
                continue
            except DamageError as damage:
                damaged[name] = str(damage)
        return whole, damaged

    def version(self, name: str) -> int:
        """What a tag means."""
        path = f"tags/{name}"
        try:
            tag = proven(read_small(self.folder / name), path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DamageError(f"{path} cannot be read ({error.strerror})") from None
        match tag:
            case {"name": str(named), "version": int(version)}:
                if named != name:
                    raise DamageError(f"{path} is that of '{named}': the file was renamed")
                return version
        raise DamageError(f"{path} names no version")

    def write(self, name: str, version: int) -> None:
        """Give `version` the name, whoever had it before."""
        tag = {"name": name, "version": version}
        try:
            if not self.folder.is_dir():
                make_folder(self.folder)
                sync_folder(self.folder.parent)
            write_atomic(self.folder / name, sealed(tag))
        except OSError as error:
            raise ShoalError(
                f"the tag '{name}' cannot be written to {as_typed(self.folder)} ({error.strerror}): make room; "
                "checkpoints are whole"
            ) from error

    def remove(self, name: str) -> None:
        """Take the name away; the checkpoint stays until it is one too many."""
        try:
            (self.folder / name).unlink()
            sync_folder(self.folder)
        except FileNotFoundError:
            raise InputError(f"there is no tag '{name}'; {did_you_mean(name, self.names())}") from None
        except OSError as error:
            raise ShoalError(
                f"the tag '{name}' cannot be removed from {as_typed(self.folder)} ({error.strerror}): look at the disk"
            ) from error

    def leftovers(self) -> list[tuple[Path, int]]:
        """Files that were never finished, each with the process that began it."""
        found = list_folder(self.folder)
        return [(path, int(match[1])) for path in found if (match := _TEMPORARY.fullmatch(path.name))]
