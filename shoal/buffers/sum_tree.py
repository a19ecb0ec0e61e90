"""A binary tree of sums: numbers at its leaves in, leaves drawn in proportion to them out, many at a time."""

from __future__ import annotations

import numpy as np

ROOT = 1
"""Of `nodes`; the children of node n are 2n and 2n + 1."""


class SumTree:
    """Every node is the sum of its two children, computed anew whenever one changes: rounding never adds up.

    So the whole tree is a function of its leaves, whatever was written before.
    """

    def __init__(self, leaves: int) -> None:
        self._leaves, self._first = leaves, _width(leaves)
        self._nodes = np.zeros(2 * self._first)

    @property
    def values(self) -> np.ndarray:
        """`[leaves]`: what stands at each; a view, to read only."""
        return self._nodes[self._first : self._first + self._leaves]

    @property
    def total(self) -> float:
        """Of all leaves."""
        return float(self._nodes[ROOT])

    def set(self, places: np.ndarray, values: np.ndarray) -> None:
        """Write many leaves; of a place that is named twice, the later value counts."""
        if not (np.isfinite(values) & (values >= 0)).all():
            raise ValueError("a sum tree holds finite numbers from 0 on")
        if len(places) and not 0 <= places.min() <= places.max() < self._leaves:
            raise IndexError(f"the tree has leaves 0 to {self._leaves - 1}")
        nodes = places + self._first
        self._nodes[nodes] = values
        for _ in range(self._first.bit_length() - 1):
            nodes = nodes >> 1
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, sought: np.ndarray) -> np.ndarray:
        """For each number of [0, total): the leaf at which the sum of leaves, from the first on, exceeds it.

        A leaf of 0 is never found, whatever rounding does at the borders.
        """
        if not self.total:
            raise ValueError("nothing to find: every leaf is 0")
        node, rest = np.full(len(sought), ROOT), sought.astype(np.float64)
        for _ in range(self._first.bit_length() - 1):
            left, right = self._nodes[2 * node], self._nodes[2 * node + 1]
            beyond = (rest >= left) & (right > 0)
            rest = np.where(beyond, rest - left, rest)
            node = 2 * node + beyond
        return node - self._first

    def draw(self, uniform: np.ndarray) -> np.ndarray:
        """Stratified: of n equal shares of the total, one leaf each; `uniform` are n numbers of [0, 1)."""
        return self.find((np.arange(len(uniform)) + uniform) / len(uniform) * self.total)


def tree_nbytes(leaves: int) -> int:
    """Bytes that a tree of so many leaves takes."""
    return 2 * _width(leaves) * np.dtype(np.float64).itemsize


def _width(leaves: int) -> int:
    """The next power of two."""
    return 1 << max(leaves - 1, 0).bit_length()
