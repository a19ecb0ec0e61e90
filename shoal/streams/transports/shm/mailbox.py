"""Versions of one block, in `versions + 1` places: the spare one is written while all the others can be read.

A place is guarded by the version it holds, -1 while it is empty or being written. Versions only grow, so a reader that finds the
same number before and after its copy has copied that version whole. A writer killed in the middle leaves an empty place, no more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from shoal.streams.primitives import Mailbox
from shoal.streams.transports.shm.doorbell import Doorbell
from shoal.streams.transports.shm.futex import barrier, fence
from shoal.streams.transports.shm.segment import ALIGNMENT, Segment, SegmentHandle, aligned


class MailboxHandle(NamedTuple):
    """All that another process needs to attach. Numbers only: it may travel as JSON or msgpack."""

    segment: SegmentHandle
    nbytes: int
    versions: int
    bells: tuple[SegmentHandle, ...]


class ShmMailbox(Mailbox):
    """A mailbox in shared memory. `bells`, those of its readers, are rung at each version."""

    def __init__(self, nbytes: int, versions: int, *, bells: Sequence[Doorbell] = ()) -> None:
        places = versions + 1
        segment = Segment.create(_blocks_at(places) + places * aligned(nbytes))
        handle = MailboxHandle(segment.handle, nbytes, versions, tuple(bell.handle for bell in bells))
        self._open(segment, handle, bells, closing=())
        self._newest[0] = -1
        for place in range(places):
            self._held[place] = -1

    @classmethod
    def attach(cls, handle: MailboxHandle) -> ShmMailbox:
        """The same mailbox from another process, to read it or to go on writing it after its writer died."""
        handle = MailboxHandle(*handle)
        box = cls.__new__(cls)
        bells = [Doorbell.attach(bell) for bell in handle.bells]
        box._open(Segment.attach(handle.segment), handle, bells, closing=bells)
        for bell in bells:  # a writer may have died after it published and before it rang
            bell.ring()
        return box

    def _open(
        self, segment: Segment, handle: MailboxHandle, bells: Sequence[Doorbell], closing: Sequence[Doorbell]
    ) -> None:
        places = handle.versions + 1
        self.handle, self._segment, self._bells, self._closing = handle, segment, bells, closing
        self._newest = segment.words(0, 1)
        self._held = segment.words(ALIGNMENT, places)
        stride, start = aligned(handle.nbytes), _blocks_at(places)
        self._blocks = [segment.array(start + i * stride, (handle.nbytes,), np.uint8) for i in range(places)]

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        newest = self.latest()
        if version <= newest:
            raise RuntimeError(f"version {version} comes after {newest}")
        place = self._spare(newest, keep)
        self._held[place] = -1
        barrier()  # large copies are streaming stores, which overtake even on x86-64
        self._blocks[place][:] = block
        fence()
        self._held[place] = version
        fence()
        self._newest[0] = version
        self._held[self._spare(version, keep)] = -1
        for bell in self._bells:
            bell.ring()

    def latest(self) -> int:
        return self._newest[0]

    def held(self) -> list[int]:
        """Versions that can be read, oldest first."""
        newest = self.latest()
        return sorted(version for version in self._held if 0 <= version <= newest)

    def read(self, version: int, into: np.ndarray) -> bool:
        # beyond the newest: a writer may have died before it said so, and that version be written once more
        if not 0 <= version <= self.latest():
            return False
        fence()
        for place, held in enumerate(self._held):
            if held == version:
                fence()
                into[:] = self._blocks[place]
                fence()
                return self._held[place] == version
        return False

    def close(self) -> None:
        """Let go of the memory."""
        for bell in self._closing:
            bell.close()
        self._blocks = []
        self._newest.release()
        self._held.release()
        self._segment.close()

    def _spare(self, newest: int, keep: Collection[int]) -> int:
        """The empty place, else the oldest not in `keep`; one filled beyond the newest was never announced: it counts as empty."""
        held = [version if version <= newest else -1 for version in self._held]
        return min(range(len(held)), key=lambda i: (held[i] in keep, held[i]))


def _blocks_at(places: int) -> int:
    return ALIGNMENT + aligned(8 * places)
