"""Transport inside one process: plain arrays, no waiting, since whoever would be waited for runs in this same thread."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from shoal.base.arrays import Layout
from shoal.streams.primitives import Mailbox, Ring, Slot, Waiter


class NoWaiting(Waiter):
    """Asks once: in one thread nothing happens while it waits."""

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> bool:
        return ready()


class MemoryRing(Ring):
    """Slots of plain arrays."""

    def __init__(self, layout: Layout, slots: int) -> None:
        self.slots = slots
        self._slots = [Slot(i, layout.allocate()) for i in range(slots)]
        self._posted = self._taken = self._freed = 0

    @property
    def posted(self) -> int:
        return self._posted

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def freed(self) -> int:
        return self._freed

    def look(self, number: int) -> Slot:
        return self._slots[number % self.slots]

    def begin(self, timeout: float) -> Slot | None:
        return self._slots[self._posted % self.slots] if self._posted - self._freed < self.slots else None

    def post(self, slot: Slot) -> None:
        if slot.index != self._posted % self.slots or self._posted - self._freed >= self.slots:
            raise RuntimeError(f"slot {slot.index} was not begun")
        self._posted += 1

    def take(self, timeout: float) -> Slot | None:
        if self._taken == self._posted:
            return None
        self._taken += 1
        return self._slots[(self._taken - 1) % self.slots]

    def free(self, slot: Slot) -> None:
        if slot.index != self._freed % self.slots or self._freed >= self._taken:
            raise RuntimeError(f"slot {slot.index} is not the oldest taken one")
        self._freed += 1

    def rewind(self) -> None:
        self._taken = self._freed


class MemoryMailbox(Mailbox):
    """`versions` blocks: the last ones, if nobody says otherwise."""

    def __init__(self, nbytes: int, versions: int) -> None:
        self._blocks = np.zeros((versions, nbytes), np.uint8)
        self._versions = [-1] * versions

    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        if version <= self.latest():
            raise RuntimeError(f"version {version} comes after {self.latest()}")
        place = min(range(len(self._versions)), key=lambda i: (self._versions[i] in keep, self._versions[i]))
        self._blocks[place] = block
        self._versions[place] = version

    def latest(self) -> int:
        return max(self._versions)

    def read(self, version: int, into: np.ndarray) -> bool:
        if version < 0 or version not in self._versions:
            return False
        into[:] = self._blocks[self._versions.index(version)]
        return True
