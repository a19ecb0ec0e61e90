"""Parameters that several processes write at once, without a lock (Recht et al. 2011): the memory of `hogwild`.

To whoever acts it is a Mailbox. There is one version only, the present one, and it is torn: while it is read, some of it is older
than the rest. Its number is that of all updates, and each replica counts its own in a word of its own, so no count is ever lost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from shoal.streams.primitives import Mailbox
from shoal.streams.transports.shm.segment import ALIGNMENT, Segment, SegmentHandle, aligned

_LINE = ALIGNMENT // 8


class SharedBlockHandle(NamedTuple):
    """All that another process needs to attach. Numbers only: it may travel as JSON or msgpack."""

    segment: SegmentHandle
    nbytes: int
    replicas: int
    beside: int


class SharedBlock(Mailbox):
    """block   uint8 [nbytes]: what replicas train in and actors read
    beside  uint8 [beside]: what replicas alone share, optimisers for example
    """

    def __init__(self, nbytes: int, replicas: int, beside: int = 0) -> None:
        segment = Segment.create(ALIGNMENT * (1 + replicas) + aligned(nbytes) + aligned(beside))
        self._open(segment, SharedBlockHandle(segment.handle, nbytes, replicas, beside))
        self._words[0] = -1

    @classmethod
    def attach(cls, handle: SharedBlockHandle) -> SharedBlock:
        """The same memory from another process, to train in it or to read it."""
        handle = SharedBlockHandle(*handle)
        shared = cls.__new__(cls)
        shared._open(Segment.attach(handle.segment), handle)
        return shared

    def _open(self, segment: Segment, handle: SharedBlockHandle) -> None:
        self.handle, self._segment = handle, segment
        self._words = segment.words(0, _LINE * (1 + handle.replicas))
        start = ALIGNMENT * (1 + handle.replicas)
        self.block = segment.array(start, (handle.nbytes,), np.uint8)
        self.beside = segment.array(start + aligned(handle.nbytes), (handle.beside,), np.uint8)

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        """Owner, once, before anybody trains: where all start from. Later versions are made by `count`."""
        if self.latest() >= 0:
            raise RuntimeError(f"version {version} comes after {self.latest()}: replicas count their updates instead")
        self.block[:] = block
        self._words[0] = version

    def count(self, rank: int) -> int:
        """Replica: one more update was made in place. The version it made, give or take what others make meanwhile."""
        self._words[_LINE * (1 + rank)] += 1
        return self.latest()

    def counter(self, rank: int) -> InPlace:
        """The block as a replica publishes in it."""
        return InPlace(self, rank)

    def counted(self, rank: int) -> int:
        """Updates of one replica, over all its lives."""
        return self._words[_LINE * (1 + rank)]

    def latest(self) -> int:
        start = self._words[0]
        return start if start < 0 else start + sum(self._words[_LINE::_LINE])

    def read(self, version: int, into: np.ndarray) -> bool:
        """Copy what is there now, whatever version was asked for; False before the first."""
        if self._words[0] < 0:
            return False
        into[:] = self.block
        return True

    def close(self) -> None:
        """Let go of the memory; what was cut from `block` and `beside` stays good until it is dropped."""
        self.block, self.beside = (array[:0].copy() for array in (self.block, self.beside))
        self._words.release()
        self._segment.close()


class InPlace(Mailbox):
    """A replica's: what it would publish is there already, so it only counts."""

    def __init__(self, shared: SharedBlock, rank: int) -> None:
        self._shared, self._rank = shared, rank

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        self._shared.count(self._rank)

    def latest(self) -> int:
        return self._shared.latest()

    def read(self, version: int, into: np.ndarray) -> bool:
        return self._shared.read(version, into)
