"""What workers hold in the middle of a run: the second half of a checkpoint, beside what trainers have learnt."""

from __future__ import annotations

import safetensors.numpy
import safetensors.torch
from torch import Tensor

from shoal.base.packing import pack, unpack
from shoal.base.tree import Tree


def to_bytes(contents: Tree | None) -> bytes:
    """For the way to whoever saves it; empty: there is none."""
    return b"" if contents is None else safetensors.numpy.save(pack(contents))


def to_tensors(sent: bytes) -> dict[str, Tensor]:
    """As a file of a checkpoint holds it."""
    return safetensors.torch.load(sent)


def from_tensors(tensors: dict[str, Tensor]) -> Tree:
    """The contents that were sent."""
    return unpack({name: tensor.numpy() for name, tensor in tensors.items()})
