"""One version of a run, read from its folder and checked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.base.errors import InputError
from shoal.base.files import as_typed, read_limited
from shoal.base.table import did_you_mean
from shoal.checkpoints import manifest as manifests
from shoal.checkpoints.holds import Held, RemovedError
from shoal.checkpoints.manifest import MANIFEST, STATE, DamageError
from shoal.checkpoints.parts import map_tensors

if TYPE_CHECKING:
    from torch import Tensor


class Skipped(NamedTuple):
    """A version that was passed over."""

    version: int
    damage: str
    steps: int | None
    """That were behind it, where its manifest can still tell."""


@dataclass(frozen=True)
class Checkpoint:
    """One version, checked."""

    version: int
    tensors: dict[str, Tensor]
    manifest: dict[str, Any] = field(repr=False)
    path: Path
    skipped: list[Skipped] = field(default_factory=list)
    """Newer versions that are damaged, newest first."""

    @property
    def meta(self) -> dict[str, Any]:
        """The counters that were saved with it."""
        return self.manifest["meta"]

    @property
    def extras(self) -> list[str]:
        """The files beside the state."""
        return sorted(self.manifest["files"].keys() - {STATE})

    def extra(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file beside the state; checked now, and read from the disk as they are looked at."""
        if name not in self.extras:
            raise InputError(f"checkpoint {self.version} has no '{name}'; {did_you_mean(name, self.extras)}")
        try:
            with contextlib.closing(Held(self.path)) as held, reading(name), held.open(name) as file:
                return map_tensors(file, name, self.manifest["files"][name])
        except RemovedError:
            raise InputError(f"checkpoint {self.version} was removed meanwhile: {as_typed(self.path)}") from None
        except DamageError as damage:
            raise InputError(f"checkpoint {self.version} is damaged: {as_typed(self.path)}: {damage}") from None


def read_manifest(held: Held, version: int) -> dict[str, Any]:
    """The manifest of an open checkpoint, checked."""
    with reading(MANIFEST):
        held.manifest.seek(0)
        return manifests.read(read_limited(held.manifest), version)


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """A file that the disk does not give back is damage too."""
    try:
        yield
    except OSError as error:
        raise DamageError(f"{name} cannot be read ({error.strerror})") from None


def stage_of(found: Checkpoint | None) -> int:
    """The stage of its curriculum that a run was in."""
    return 0 if found is None else int(found.meta.get("controller", {}).get("stage", 0))
