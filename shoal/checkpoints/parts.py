"""The files of a checkpoint: tensors in, safetensors files out and back, checked to the last bit.

Written piece by piece and hashed on the way, so that saving gigabytes takes no second copy of them in memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.base.files import plain_file
from shoal.checkpoints.manifest import DamageError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_PIECE = 1 << 20
_KINDS = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "float16": "F16", "bfloat16": "BF16",
    "uint32": "U32", "int32": "I32", "float32": "F32", "uint64": "U64", "int64": "I64", "float64": "F64", "complex64": "C64",
}  # fmt: skip
"""How torch and safetensors call the same dtype."""

_LONGEST_HEADER = 100_000_000
"""Bytes, as in safetensors' own reader."""


# ---------------------------------------------------------------- writing


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Write a new safetensors file, flushed to the disk. Returns its entry in the manifest."""
    digest, size = hashlib.sha256(), 0
    with open(path, "xb", opener=plain_file) as file:
        for piece in _pieces(tensors):
            digest.update(piece)
            size += file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return {"size": size, "sha256": digest.hexdigest(), "tensors": describe(tensors)}


def describe(tensors: dict[str, Tensor]) -> dict[str, dict[str, Any]]:
    """Name -> dtype and shape."""
    return {name: {"dtype": _dtype(tensor), "shape": list(tensor.shape)} for name, tensor in tensors.items()}


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _pieces(tensors: dict[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The bytes of the file, in order. The widest dtypes come first, so that every tensor is aligned to its own."""
    import torch

    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header, end = {}, 0
    for name, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _KINDS[_dtype(tensor)], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in ordered:
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        yield from (flat[start : start + _PIECE] for start in range(0, len(flat), _PIECE))


# ---------------------------------------------------------------- reading


def read_tensors(file: BufferedReader, name: str, entry: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of a file, checked and in memory of their own."""
    _check_size(file, name, entry)
    if entry["size"] > _memory():
        raise DamageError(f"{name} has {entry['size']:,} bytes, more than this machine's memory")
    raw = bytearray(entry["size"])
    file.readinto(raw)
    _check_sum(hashlib.sha256(raw).hexdigest(), name, entry)
    return _views(raw, name, entry)


def map_tensors(file: BufferedReader, name: str, entry: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of a large file, checked; their bytes stay on the disk until somebody looks at them."""
    check(file, name, entry)
    return _views(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), name, entry)


def check(file: BufferedReader, name: str, entry: dict[str, Any]) -> None:
    """Raise DamageError unless the file is what was saved as `name`."""
    _check_size(file, name, entry)
    _check_sum(hashlib.file_digest(file, "sha256").hexdigest(), name, entry)


def _check_size(file: BufferedReader, name: str, entry: dict[str, Any]) -> None:
    """Also against its tensors: before anything large is read or reserved."""
    size = os.fstat(file.fileno()).st_size
    if size != entry["size"]:
        raise DamageError(f"{name} has {size:,} bytes instead of {entry['size']:,}")
    header = int.from_bytes(file.read(8), "little")
    file.seek(0)
    needed = 8 + header + sum(math.prod(each["shape"]) * _itemsize(each["dtype"]) for each in entry["tensors"].values())
    if size != needed or header > _LONGEST_HEADER:
        raise DamageError(f"{name} is no safetensors file: it has {size:,} bytes, and its tensors need {needed:,}")


def _itemsize(dtype: str) -> int:
    import torch

    return getattr(torch, dtype).itemsize if dtype in _KINDS else 0


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _check_sum(sha256: str, name: str, entry: dict[str, Any]) -> None:
    if sha256 != entry["sha256"]:
        raise DamageError(f"{name} was changed since it was written: its SHA-256 is another")


def _views(raw: bytearray | mmap.mmap, name: str, entry: dict[str, Any]) -> dict[str, Tensor]:
    try:
        start = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(bytes(raw[8:start]))
        header.pop("__metadata__", None)
        tensors = {key: _view(raw, start, kind) for key, kind in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamageError(f"{name} is no safetensors file ({error})") from None
    if describe(tensors) != entry["tensors"]:
        raise DamageError(f"{name} holds other tensors than the manifest names")
    return tensors


def _view(raw: bytearray | mmap.mmap, start: int, entry: dict[str, Any]) -> Tensor:
    import torch

    dtype: torch.dtype = getattr(torch, {kind: name for name, kind in _KINDS.items()}[entry["dtype"]])
    count, (first, last) = math.prod(entry["shape"]), entry["data_offsets"]
    if min(first, *entry["shape"], 0) < 0 or last - first != count * dtype.itemsize:
        raise ValueError(f"{last - first} bytes for {count} of {dtype}")
    if count == 0:
        return torch.empty(entry["shape"], dtype=dtype)
    return torch.frombuffer(raw, dtype=dtype, count=count, offset=start + first).reshape(entry["shape"])
