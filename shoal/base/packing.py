"""Trees as plain arrays and back: what is to be written down without pickle.

Leaves may be arrays, numbers, truth values and words; branches are dicts with words as keys, and tuples.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from shoal.base.plain import described
from shoal.base.tree import Tree

SHAPE = "shape"
"""The array that tells how the others hang together, as JSON."""


def pack(tree: Tree) -> dict[str, np.ndarray]:
    """Name -> array: the leaves that are arrays, numbered, and `shape`."""
    arrays: list[np.ndarray] = []
    shape = json.dumps(_shape(tree, arrays)).encode()
    return {SHAPE: np.frombuffer(shape, np.uint8), **{str(i): array for i, array in enumerate(arrays)}}


def unpack(packed: dict[str, np.ndarray]) -> Tree:
    """The tree that `pack` was given."""
    return _tree(json.loads(packed[SHAPE].tobytes()), packed)


def _shape(tree: Tree, arrays: list[np.ndarray]) -> Any:
    if isinstance(tree, dict):
        return {"dict": {key: _shape(value, arrays) for key, value in tree.items()}}
    if isinstance(tree, tuple):
        return {"tuple": [_shape(value, arrays) for value in tree]}
    if isinstance(tree, np.ndarray) and tree.dtype.fields:  # records are bytes to whoever writes arrays down
        arrays.append(np.ascontiguousarray(tree).reshape(-1).view(np.uint8))
        kind = np.lib.format.dtype_to_descr(tree.dtype)
        return {"records": {"array": str(len(arrays) - 1), "dtype": kind, "shape": list(tree.shape)}}
    if isinstance(tree, np.ndarray):
        # how an array lies in memory is kept: products of matrices that lie otherwise differ in their last bits
        columns = tree.flags.f_contiguous and not tree.flags.c_contiguous
        arrays.append(tree.T if columns else tree)
        return {"transposed" if columns else "array": str(len(arrays) - 1)}
    if tree is None or isinstance(tree, bool | int | float | str):
        return {"plain": tree}
    raise TypeError(f"a {type(tree).__name__} cannot be written down: use arrays, numbers and words")


def _tree(shape: Any, packed: dict[str, np.ndarray]) -> Tree:
    ((kind, value),) = shape.items()
    if kind == "dict":
        return {key: _tree(part, packed) for key, part in value.items()}
    if kind == "tuple":
        return tuple(_tree(part, packed) for part in value)
    if kind == "records":
        dtype = np.lib.format.descr_to_dtype(described(value["dtype"]))
        return packed[value["array"]].view(dtype).reshape(value["shape"])
    if kind == "transposed":
        return packed[value].T
    return packed[value] if kind == "array" else value
