"""A Tally between processes of one machine: the words, the bell and both buffers in one segment.

There is no lock, and a part counts only once it is whole. So a participant killed at any instruction leaves the others waiting in
a sound round until the owner, who sees the death, abandons it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.streams.transports.rounds import LINE, Rounds
from shoal.streams.transports.shm.doorbell import Doorbell
from shoal.streams.transports.shm.futex import fence
from shoal.streams.transports.shm.segment import ALIGNMENT, Segment, SegmentHandle, aligned

LOOKING = 2e-3
"""Seconds to look before falling asleep. Replicas do the same work at the same time, so the others are never far, and a core that
slept would come too late to the next round as well."""


class TallyHandle(NamedTuple):
    """All that another process needs to attach. Numbers only: it may travel as JSON or msgpack."""

    segment: SegmentHandle
    ranks: int
    nbytes: int


class ShmTally(Rounds):
    """Whoever creates it owns it; participants attach, and one rank is one process (or thread)."""

    def __init__(self, ranks: int, nbytes: int) -> None:
        segment = Segment.create(_parts_at(ranks) + 2 * ranks * aligned(nbytes))
        self._open(segment, TallyHandle(segment.handle, ranks, nbytes))

    @classmethod
    def attach(cls, handle: TallyHandle) -> ShmTally:
        """The same tally from another process."""
        handle = TallyHandle(*handle)
        tally = cls.__new__(cls)
        tally._open(Segment.attach(handle.segment), handle)
        return tally

    def _open(self, segment: Segment, handle: TallyHandle) -> None:
        self.handle, self._segment, self._doorbell = handle, segment, Doorbell(segment, looking=LOOKING)
        words = segment.words(ALIGNMENT, LINE * (1 + handle.ranks))
        parts = segment.array(_parts_at(handle.ranks), (2, handle.ranks, aligned(handle.nbytes)), np.uint8)
        super().__init__(words, parts, handle.nbytes, self._doorbell, fence)

    def close(self) -> None:
        """Let go of the memory."""
        self._parts = self._parts[:0].copy()
        self._words.release()
        self._doorbell.close()
        self._segment.close()


def _parts_at(ranks: int) -> int:
    """Behind the bell, the abandon word and a line for each rank."""
    return ALIGNMENT * (2 + ranks)
