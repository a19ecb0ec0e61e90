"""Shapes and dtypes of trees of arrays, known before the arrays exist: what a slot of a ring is cut from."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from shoal.base.plain import from_plain, register, to_plain
from shoal.base.tree import Tree, tree_leaves, tree_map


class ArraySpec(NamedTuple):
    """One array of a layout. A NamedTuple is a leaf here, so layouts are dicts of these."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of one such array."""
        return math.prod(self.shape) * self.dtype.itemsize


class Layout:
    """A tree of ArraySpecs. Kept as (tree of indices, list of specs), since a spec is itself a tuple."""

    def __init__(self, tree: Tree, specs: list[ArraySpec]) -> None:
        self._tree, self.specs = tree, specs

    @classmethod
    def of(cls, example: Tree) -> Layout:
        """The layout of a tree of arrays."""
        specs = [ArraySpec(leaf.shape, leaf.dtype) for _, leaf in tree_leaves(example)]
        counter = iter(range(len(specs)))
        return cls(tree_map(lambda _: next(counter), example), specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self._tree, self.specs) == (other._tree, other.specs)

    def __hash__(self) -> int:
        return hash(tuple(self.specs))

    @property
    def nbytes(self) -> int:
        """Bytes of one allocation."""
        return sum(spec.nbytes for spec in self.specs)

    def allocate(self) -> Tree:
        """Arrays of zeros in this layout."""
        return tree_map(lambda i: np.zeros(*self.specs[i]), self._tree)


register("layout", Layout, lambda it: [to_plain(it._tree), to_plain(it.specs)], lambda it: Layout(*map(from_plain, it)))
