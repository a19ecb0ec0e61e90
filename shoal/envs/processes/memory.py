"""Memory that an Env shares with the processes of its copies: the same arrays for every row, one behind the other."""

from __future__ import annotations

import mmap
import os
from itertools import accumulate

import numpy as np

from shoal.base.arrays import Layout
from shoal.base.tree import Tree, tree_map

LINE = 64
"""Bytes: an array begins on a cache line of its own."""


class SharedRows:
    """It has no name and goes when the last process that holds it ends. `descriptor`: of memory that another has made."""

    def __init__(self, layout: Layout, rows: int, descriptor: int | None = None) -> None:
        self.layout = layout
        sizes = [-(-spec.nbytes // LINE) * LINE for spec in layout.specs]
        *self._offsets, self._size = accumulate(sizes, initial=0)
        total = max(LINE, self._size * rows)
        self.descriptor = os.memfd_create("shoal-env") if descriptor is None else descriptor
        if descriptor is None:
            os.posix_fallocate(self.descriptor, 0, total)  # for real: later there may be no room
        self._memory = mmap.mmap(self.descriptor, total)

    def row(self, number: int) -> Tree:
        """The arrays of a row."""
        places = iter(self._offsets)

        def view(like: np.ndarray) -> np.ndarray:
            return np.ndarray(like.shape, like.dtype, self._memory, number * self._size + next(places))

        return tree_map(view, self.layout.allocate())

    def close(self) -> None:
        """No more processes can be given it; the arrays stay as long as somebody holds them."""
        os.close(self.descriptor)
