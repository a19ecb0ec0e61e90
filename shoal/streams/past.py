"""Earlier versions of a policy: which are kept, by whom they are written. Every so many versions one gets a number, 0, 1, 2, ...

Writer and readers each work out for themselves which numbers are met: it follows from the newest alone. So a worker that
died and came back meets the same ones.
"""

from __future__ import annotations

import copy

import numpy as np

from shoal.streams.primitives import Mailbox


class Pool:
    """The numbers that are met, at most `size`: the newest ones, or, `spread`, some of all since the first, which stays."""

    def __init__(self, numbers: list[int], size: int, *, spread: bool) -> None:
        self._numbers, self._size, self._spread = list(numbers), size, spread

    def at(self, newest: int) -> list[int]:
        """Once `newest` is the newest; it never goes back."""
        for number in range(self._numbers[-1] + 1, newest + 1):
            self._numbers.append(number)
            if len(self._numbers) > self._size:
                del self._numbers[self._crowded()]
        return list(self._numbers)

    def _crowded(self) -> int:
        """The place that is missed least: the oldest, or the one that the coarsest grid has no point at.

        Counted from the first, a number lies on the grid of the highest power of two that divides it. Grids nest, so what is kept
        for a finer one makes room for a coarser one as the run grows, and who left is never wanted again.
        """
        if not self._spread or self._size == 1:
            return 0
        ages = [number - self._numbers[0] for number in self._numbers]
        return min(range(1, len(ages) - 1), key=lambda place: (ages[place] & -ages[place], ages[place]))


class Archive:
    """Keeps one version in `every`. What left the pool within the last `slack` numbers stays: somebody may still ask for it."""

    def __init__(self, mailbox: Mailbox, every: int, pool: Pool, slack: int) -> None:
        self._mailbox, self._every, self._pool, self._slack = mailbox, every, pool, slack

    def kept(self, nbytes: int) -> dict[str, np.ndarray]:
        """Number -> parameters, of all that are met now: what a checkpoint holds of it."""
        found = {}
        for number in copy.deepcopy(self._pool).at(max(0, self._mailbox.latest())):  # its own is behind, for the slow
            block = np.empty(nbytes, np.uint8)
            if self._mailbox.read(number, block):
                found[str(number)] = block
        return found

    def restore(self, kept: dict[str, np.ndarray]) -> None:
        """Go on with what a checkpoint held."""
        numbers = sorted(map(int, kept))
        for number in numbers:
            if number > self._mailbox.latest():
                self._mailbox.publish(number, kept[str(number)], keep=numbers)

    def keep(self, version: int, block: np.ndarray) -> None:
        """Keep it if it is one of those."""
        number = version // self._every
        if number > self._mailbox.latest():
            self._mailbox.publish(number, block, keep=self._pool.at(number - self._slack))
