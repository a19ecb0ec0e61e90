"""A tree of sums: numbers at its leaves in, leaves drawn in proportion to them out, many at a time."""

from __future__ import annotations

import numpy as np

TOP = 10
"""Levels that are not kept: beneath them, 2 ** 10 nodes are added up in one go before they are searched."""
AHEAD = 2
"""Cells before the first node: the descent carries a node's number plus 1, which saves it an addition at each level."""
SIGN = np.array(63)
"""The bit of a float64 that says whether it is below 0."""


class SumTree:
    """Binary: the children of node n are 2n and 2n + 1, and every node is their sum, computed anew whenever one changes.

    So rounding never adds up, and the whole tree is a function of its leaves, whatever was written before.
    """

    def __init__(self, leaves: int) -> None:
        self._leaves, self._first = leaves, _width(leaves)
        self._depth = self._first.bit_length() - 1
        self._top = min(self._depth, TOP)
        self._cells = np.zeros(AHEAD + 2 * self._first)
        self._nodes = self._cells[AHEAD:]
        self._pairs = self._nodes.view(np.complex128)
        self._running = np.zeros((1 << self._top) + 1)
        self._changed = False

    @property
    def values(self) -> np.ndarray:
        """`[leaves]`: what stands at each; a view, to read only."""
        return self._nodes[self._first : self._first + self._leaves]

    @property
    def total(self) -> float:
        """Of all leaves."""
        return float(self._sums()[-1])

    def _sums(self) -> np.ndarray:
        """Running sums of the topmost nodes that are kept, 0 before them."""
        if self._changed:
            np.cumsum(self._nodes[1 << self._top : 2 << self._top], out=self._running[1:])
            self._changed = False
        return self._running

    def set(self, places: np.ndarray, values: np.ndarray) -> None:
        """Write many leaves; of a place that is named twice, the later value counts."""
        if not len(places):
            return
        if not (values.min() >= 0 and values.max() < np.inf):  # NaN is neither
            raise ValueError("a sum tree holds finite numbers from 0 on")
        if places.view(np.uint64).max() >= self._leaves:  # those below 0 count as huge
            raise IndexError(f"the tree has leaves 0 to {self._leaves - 1}")
        node = places + self._first
        self._nodes[node] = values
        for _ in range(self._depth - self._top):
            node >>= 1
            children = self._pairs.take(node)
            self._nodes[node] = children.real + children.imag
        self._changed = True

    def find(self, sought: np.ndarray) -> np.ndarray:
        """For each number of [0, total]: the leaf at which the sum of leaves, from the first on, exceeds it.

        A leaf of 0 is never found, whatever rounding does at the borders.
        """
        if not self.total:
            raise ValueError("nothing to find: every leaf is 0")
        sums = self._sums()
        block = sums[1:-1].searchsorted(sought, "right")
        places = self._descend(block + (1 << self._top), sought - sums[block])
        if not self._nodes.take(places + self._first).all():
            held = np.flatnonzero(self.values)
            places = held[np.maximum(held.searchsorted(places, "right") - 1, 0)]
        return places

    def _descend(self, node: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """From nodes to leaves: to the right where `rest` is not less than the left child, which is then taken off.

        Signs are read from bits: floats from 0 on are ordered as whole numbers, and those below 0 come after them all.
        """
        node += 1
        left, beyond, step = np.empty_like(rest), np.empty_like(rest), np.empty_like(node)
        bits, beyond_bits, sign = rest.view(np.uint64), beyond.view(np.uint64), beyond.view(np.int64)
        for _ in range(self._depth - self._top):
            node += node
            self._cells.take(node, out=left, mode="clip")
            np.subtract(rest, left, out=beyond)
            np.minimum(bits, beyond_bits, out=bits)
            np.right_shift(sign, SIGN, out=step)  # -1: to the left
            node += step
        return node - (1 + self._first)

    def draw(self, uniform: np.ndarray) -> np.ndarray:
        """Stratified: of n equal shares of the total, one leaf each; `uniform` are n numbers of [0, 1)."""
        return self.find((np.arange(len(uniform)) + uniform) * (self.total / len(uniform)))


def tree_nbytes(leaves: int) -> int:
    """Bytes that a tree of so many leaves takes."""
    width = _width(leaves)
    return (AHEAD + 2 * width + min(width, 1 << TOP) + 1) * np.dtype(np.float64).itemsize


def _width(leaves: int) -> int:
    """The next power of two."""
    return 1 << max(leaves - 1, 0).bit_length()
