"""The rounds of a Tally over memory that its participants share: words that say who has come, and two buffers that take turns.

Each rank stores into words of its own only, each after the work that it counts:

    arrived   rounds it brought its part to
    returned  rounds it has the sum of
    nbytes    of its part, one word per buffer
    kind      of its numbers, one word per buffer

Round k uses buffer k % 2. Whoever arrives at round k has read all of round k - 1; whoever leaves round k has seen everyone arrive
there. So a part is overwritten, two rounds later, when nobody can be reading it, and a round needs one wait, not two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from shoal.streams.primitives import AbandonedError, Tally

LINE = 8
"""Words of a cache line. The first line holds the abandon word, then each rank has one."""

_ARRIVED, _RETURNED, _NBYTES, _KIND = 0, 1, 2, 4
_ABANDONED = "the other replicas of this trainer are gone: one of them died, or the run ends"
_KINDS = {ord("f"): "float32", ord("d"): "float64"}


class Bell(Protocol):
    """What participants sleep on."""

    def ring(self) -> None:
        """Let all sleepers look again."""

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> bool:
        """Sleep until `ready()` holds; False if it did not in time."""


class Rounds(Tally):
    """Words int64 `[(1 + ranks) * LINE]`, parts uint8 `[2, ranks, >= nbytes]`, both zero at first."""

    def __init__(
        self, words: memoryview, parts: np.ndarray, nbytes: int, bell: Bell, fence: Callable[[], None] = lambda: None
    ) -> None:
        self.ranks, self.nbytes = parts.shape[1], nbytes
        self._words, self._parts, self._bell, self._fence = words, parts, bell, fence
        self._lines = [LINE * (1 + rank) for rank in range(self.ranks)]
        self._totals = np.empty(parts.shape[1:], np.uint8)

    def sum(self, rank: int, vector: np.ndarray, timeout: float) -> np.ndarray:
        words, line = self._words, self._lines[rank]
        if words[0]:
            raise AbandonedError(_ABANDONED)
        round_ = words[line + _RETURNED]
        self._bring(rank, round_, vector)
        if not self._bell.wait_until(lambda: self._complete(round_) or bool(words[0]), timeout):
            raise TimeoutError(f"ranks {self._missing(round_)} did not come to round {round_} in {timeout:g} s")
        if not self._complete(round_):
            raise AbandonedError(_ABANDONED)
        self._fence()
        differing = self._differing(round_ % 2)
        total = self._add(rank, round_ % 2, vector) if differing is None else None
        self._fence()
        words[line + _RETURNED] = round_ + 1
        if total is None:
            raise ValueError(f"round {round_}: {differing}")
        return total

    def abandon(self) -> None:
        self._words[0] = 1
        self._bell.ring()

    def renew(self) -> None:
        for line in self._lines:
            for word in range(LINE):
                self._words[line + word] = 0
        self._fence()
        self._words[0] = 0

    def _bring(self, rank: int, round_: int, vector: np.ndarray) -> None:
        words, line, turn = self._words, self._lines[rank], round_ % 2
        part = self._parts[turn, rank, : vector.nbytes]
        if words[line + _ARRIVED] > round_:  # a call before ran out of time: others may be reading what it brought
            if words[line + _NBYTES + turn] != vector.nbytes or part.tobytes() != vector.tobytes():
                raise RuntimeError(f"rank {rank} has brought another vector to round {round_} already")
            return
        self._check(vector)
        part.view(vector.dtype)[:] = vector
        words[line + _NBYTES + turn], words[line + _KIND + turn] = vector.nbytes, ord(vector.dtype.char)
        self._fence()
        words[line + _ARRIVED] = round_ + 1
        self._bell.ring()

    def _check(self, vector: np.ndarray) -> None:
        if ord(vector.dtype.char) not in _KINDS or not vector.dtype.isnative or vector.ndim != 1:
            raise ValueError(f"float32 or float64 [n] is summed, not {vector.dtype} {list(vector.shape)}")
        if vector.nbytes > self.nbytes:
            raise ValueError(f"a vector of {vector.nbytes} bytes is too long: there is room for {self.nbytes}")

    def _complete(self, round_: int) -> bool:
        for line in self._lines:  # noqa: SIM110 - asked again and again while looking: `all` takes three times as long
            if self._words[line] <= round_:
                return False
        return True

    def _missing(self, round_: int) -> list[int]:
        return [rank for rank, line in enumerate(self._lines) if self._words[line + _ARRIVED] <= round_]

    def _differing(self, turn: int) -> str | None:
        """Whose part differs from that of rank 0, with both lengths."""
        words, first = self._words, self._lines[0] + turn
        for rank, line in enumerate(self._lines):
            at = line + turn
            if words[at + _NBYTES] != words[first + _NBYTES] or words[at + _KIND] != words[first + _KIND]:
                return f"rank 0 brought {self._described(first)}, rank {rank} {self._described(at)}"
        return None

    def _described(self, at: int) -> str:
        name = _KINDS[self._words[at + _KIND]]
        return f"{self._words[at + _NBYTES] // np.dtype(name).itemsize} numbers of {name}"

    def _add(self, rank: int, turn: int, vector: np.ndarray) -> np.ndarray:
        parts = self._parts[turn, :, : vector.nbytes].view(vector.dtype)
        total = self._totals[rank, : vector.nbytes].view(vector.dtype)
        if self.ranks == 1:
            total[:] = parts[0]
            return total
        np.add(parts[0], parts[1], out=total)
        for part in parts[2:]:
            total += part
        return total
