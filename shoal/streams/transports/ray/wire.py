"""What travels between machines as bytes: the arrays of a slot, or a version of parameters.

Observations are most of a fragment. They repeat: stacked frames share planes, resting environments stand still. So images are cut
into planes of which each is sent once, and observations are compressed, as long as that pays.
"""

from __future__ import annotations

from typing import Any

import lz4.block
import numpy as np

from shoal.base.tree import Tree, tree_leaves

LEAST = 4096
"""Bytes below which nothing is compressed."""
WORTH = 0.9
"""Compressed it must be smaller than this share, or it is not worth the time."""
AGAIN = 64
"""What did not pay is tried again after so many slots."""
LARGE = 256 * 1024
"""Bytes from which an array travels as it lies: to join it to the others costs a copy, in memory that is new each time."""
_RAW, _LZ4, _PLANES = range(3)


class Packer:
    """Packs the slots of one ring. It remembers per array whether compressing paid."""

    def __init__(self, *, compress: bool = True) -> None:
        self._compress = compress
        self._skip: dict[str, int] = {}

    def pack(self, arrays: Tree) -> list[np.ndarray]:
        """uint8 [n] each: how each leaf is coded, its bytes, and all small leaves one after the other; then each large one.

        Large ones may be views of `arrays`: good for as long as those are not written anew.
        """
        kinds: list[tuple[int, int]] = []
        small: list[np.ndarray] = []
        large: list[np.ndarray] = []
        for path, leaf in tree_leaves(arrays):
            kind, part = self._code(path, np.ascontiguousarray(leaf))
            kinds.append((kind, part.nbytes))
            (large if part.nbytes >= LARGE else small).append(part)
        return [np.concatenate([np.array(kinds, np.int64).view(np.uint8).ravel(), *small]), *large]

    def _code(self, path: str, leaf: np.ndarray) -> tuple[int, np.ndarray]:
        raw = leaf.reshape(-1).view(np.uint8)
        if not self._worth_trying(path, raw):
            return _RAW, raw
        planes = leaf.ndim >= 4 and leaf.dtype == np.uint8
        small = _pack_planes(leaf) if planes else _compress(raw)
        if small.nbytes > WORTH * raw.nbytes:
            self._skip[path] = AGAIN
            return _RAW, raw
        return (_PLANES if planes else _LZ4), small

    def _worth_trying(self, path: str, raw: np.ndarray) -> bool:
        if not self._compress or raw.nbytes < LEAST or "observation" not in path.split("/"):
            return False
        left = self._skip.get(path, 0)
        self._skip[path] = max(0, left - 1)
        return not left


def unpack(packed: list[np.ndarray], into: Tree) -> None:
    """Write the leaves into arrays of the same layout."""
    leaves = [leaf for _, leaf in tree_leaves(into)]
    small, large = packed[0], iter(packed[1:])
    start = 16 * len(leaves)
    for leaf, (kind, nbytes) in zip(leaves, small[:start].view(np.int64).reshape(-1, 2).tolist(), strict=True):
        if nbytes >= LARGE:
            part = next(large)
        else:
            part = small[start : start + nbytes]
            start += nbytes
        if kind == _PLANES:
            _unpack_planes(part, leaf)
        else:
            raw = part if kind == _RAW else _decompress(part)
            leaf[...] = raw.view(leaf.dtype).reshape(leaf.shape)


def _compress(raw: np.ndarray) -> np.ndarray:
    return np.frombuffer(lz4.block.compress(raw.data, store_size=True), np.uint8)


def _decompress(part: np.ndarray) -> np.ndarray:
    return np.frombuffer(lz4.block.decompress(part.data), np.uint8)


def _pack_planes(leaf: np.ndarray) -> np.ndarray:
    """Each plane `[height, width]` once, compressed, behind the list of which plane is where."""
    planes = leaf.reshape(-1, leaf.shape[-2] * leaf.shape[-1])
    known: dict[bytes, int] = {}
    where = np.array([known.setdefault(plane.tobytes(), len(known)) for plane in planes], np.int32)
    return np.concatenate([where.view(np.uint8), _compress(np.frombuffer(b"".join(known), np.uint8))])


def _unpack_planes(part: np.ndarray, leaf: np.ndarray) -> None:
    planes, size = leaf.size // (leaf.shape[-2] * leaf.shape[-1]), leaf.shape[-2] * leaf.shape[-1]
    where = part[: 4 * planes].view(np.int32)
    leaf[...] = _decompress(part[4 * planes :]).reshape(-1, size)[where].reshape(leaf.shape)


# ---------------------------------------------------------------- parameters


def pack_version(block: np.ndarray, halved: int) -> np.ndarray:
    """A block of which the first `halved` bytes are float32 numbers that go as float16; 0: as it is."""
    if not halved:
        return block
    half: Any = block[:halved].view(np.float32).astype(np.float16)
    return np.concatenate([half.view(np.uint8), block[halved:]])


def unpack_version(packed: np.ndarray, halved: int) -> np.ndarray:
    """The block as it was, but for what float16 cannot hold."""
    if not halved:
        return packed
    half = packed[: halved // 2].view(np.float16).astype(np.float32)
    return np.concatenate([half.view(np.uint8), packed[halved // 2 :]])
