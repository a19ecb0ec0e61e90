"""Where the arrays of a slot lie: a Layout as plain text in, views of shared memory out."""

from __future__ import annotations

import ast
from itertools import accumulate, count

import numpy as np

from shoal.base.arrays import ArraySpec, Layout
from shoal.base.errors import ShoalError
from shoal.base.tree import Tree, tree_leaves, tree_map
from shoal.streams.transports.shm.segment import Segment, aligned


def layout_text(layout: Layout) -> str:
    """A layout as a Python literal, as the header of a `.npy` file is: no pickle, dicts and tuples stay what they are."""
    example = layout.allocate()
    for path, leaf in tree_leaves(example):
        if leaf.dtype.hasobject:
            raise ShoalError(f"{path} holds Python objects, which no other process can read: use a numeric dtype")
    index = count()
    tree = tree_map(lambda _: next(index), example)
    specs = [(leaf.shape, np.lib.format.dtype_to_descr(leaf.dtype)) for _, leaf in tree_leaves(example)]
    return repr((tree, specs))


class SlotPlan:
    """Offsets of the arrays of one slot, each on a cache line of its own."""

    def __init__(self, text: str) -> None:
        self._tree, specs = ast.literal_eval(text)
        self._specs = [ArraySpec(shape, np.lib.format.descr_to_dtype(descr)) for shape, descr in specs]
        self._offsets = list(accumulate((aligned(spec.nbytes) for spec in self._specs), initial=0))

    @property
    def nbytes(self) -> int:
        """From one slot to the next."""
        return self._offsets[-1]

    def views(self, segment: Segment, start: int) -> Tree:
        """The arrays of the slot that begins at `start`."""
        return tree_map(lambda i: segment.array(start + self._offsets[i], *self._specs[i]), self._tree)
