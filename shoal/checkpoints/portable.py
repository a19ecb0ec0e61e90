"""A checkpoint that travels: what one process needs of it, in memory, for machines that do not share the run's folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor

from shoal.base.errors import InputError
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.worker_state import BEFORE, file_of


@dataclass(frozen=True)
class PortableCheckpoint(Checkpoint):
    """The same to whoever reads it; its files are here."""

    held: dict[str, dict[str, Tensor]] = field(default_factory=dict, repr=False)

    def extra(self, name: str) -> dict[str, Tensor]:
        if name not in self.held:
            raise InputError(f"checkpoint {self.version} was sent without '{name}'")
        return self.held[name]


def portable(found: Checkpoint, workers: Iterable[str], *, learned: bool) -> PortableCheckpoint:
    """What these workers go on from; `learned`: with all that trainers have learnt."""
    files = [file_of(name) for name in (*workers, BEFORE)]
    held = {
        name: {key: tensor.clone() for key, tensor in found.extra(name).items()}
        for name in files
        if name in found.extras
    }
    tensors = found.tensors if learned else {}
    return PortableCheckpoint(found.version, tensors, found.manifest, found.path, held=held)
