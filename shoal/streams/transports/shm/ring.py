"""Slots that one process writes and another reads, counted by three numbers.

`posted` is stored by the writer alone, `taken` and `freed` by the reader alone, each after the work that it counts. So a process
may die anywhere and the ring stays sound:

- *the writer died*: a slot it had begun was never counted. The next writer attaches and begins the same slot again.
- *the reader died*: what it had taken but not freed stays as it is, since nobody knows what became of it. The next reader attaches
  and says. Either it calls `reclaim`, which frees those slots and returns their number, to be counted as dropped: nothing is taken
  twice. Or it calls `rewind`, and takes them again: nothing is lost.

The dead one must be dead: two writers or two readers of one ring are not told apart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from shoal.base.arrays import Layout
from shoal.streams.primitives import Ring, Slot
from shoal.streams.transports.shm.doorbell import Doorbell
from shoal.streams.transports.shm.futex import fence
from shoal.streams.transports.shm.segment import ALIGNMENT, Segment, SegmentHandle, aligned
from shoal.streams.transports.shm.slots import SlotPlan, layout_text

_POSTED, _TAKEN, _FREED = (line * ALIGNMENT // 8 for line in range(3))
_READER_BELL, _WRITER_BELL, _OWNERS = (line * ALIGNMENT for line in range(3, 6))


class RingHandle(NamedTuple):
    """All that another process needs to attach. Numbers and text: it may travel as JSON or msgpack."""

    segment: SegmentHandle
    layout: str
    slots: int
    reader_bell: SegmentHandle | None
    writer_bell: SegmentHandle | None


class Owner(NamedTuple):
    """Who last touched a slot: the writer from `begin` on, the reader from `take` on, (0, 0) when free."""

    pid: int
    incarnation: int


class ShmRing(Ring):
    """A ring in shared memory. `reader_bell` and `writer_bell` wake its two ends; left out, the ring has its own."""

    def __init__(
        self,
        layout: Layout,
        slots: int,
        *,
        reader_bell: Doorbell | None = None,
        writer_bell: Doorbell | None = None,
        incarnation: int = 0,
    ) -> None:
        text = layout_text(layout)
        segment = Segment.create(_slots_at(slots) + slots * SlotPlan(text).nbytes)
        bells = [bell for bell in (reader_bell, writer_bell) if bell is not None]
        named = (bell.handle if bell is not None else None for bell in (reader_bell, writer_bell))
        self._open(segment, RingHandle(segment.handle, text, slots, *named), incarnation, bells)

    @classmethod
    def attach(cls, handle: RingHandle, *, incarnation: int = 0, bells: Sequence[Doorbell] = ()) -> ShmRing:
        """The same ring from another process. `bells`: those open here already, not to be opened again."""
        ring = cls.__new__(cls)
        ring._open(Segment.attach(handle[0]), RingHandle(*handle), incarnation, bells)
        ring.reader_bell.ring()  # a predecessor may have died after it counted and before it rang
        ring.writer_bell.ring()
        return ring

    def _open(self, segment: Segment, handle: RingHandle, incarnation: int, bells: Sequence[Doorbell]) -> None:
        self.handle, self.slots, self.incarnation = handle, handle.slots, incarnation
        self._segment = segment
        self._words = segment.words(0, _slots_at(self.slots) // 8)
        plan, start = SlotPlan(handle.layout), _slots_at(self.slots)
        self._slots = [Slot(i, plan.views(segment, start + i * plan.nbytes)) for i in range(self.slots)]
        self._closing: list[Doorbell] = []
        self.reader_bell = self._bell(handle.reader_bell, _READER_BELL, bells)
        self.writer_bell = self._bell(handle.writer_bell, _WRITER_BELL, bells)

    def _bell(self, handle: SegmentHandle | None, offset: int, bells: Sequence[Doorbell]) -> Doorbell:
        for bell in bells:
            if handle is not None and bell.handle == SegmentHandle(*handle):
                return bell
        bell = Doorbell(self._segment, offset) if handle is None else Doorbell.attach(handle)
        self._closing.append(bell)
        return bell

    @property
    def posted(self) -> int:
        return self._words[_POSTED]

    @property
    def taken(self) -> int:
        return self._words[_TAKEN]

    @property
    def freed(self) -> int:
        return self._words[_FREED]

    def look(self, number: int) -> Slot:
        return self._slots[number % self.slots]

    @property
    def credits(self) -> int:
        """Slots that the writer may begin."""
        return self.slots - (self._words[_POSTED] - self._words[_FREED])

    @property
    def waiting(self) -> int:
        """Slots that the reader may take."""
        return self._words[_POSTED] - self._words[_TAKEN]

    def begin(self, timeout: float) -> Slot | None:
        if not self.credits and not self.writer_bell.wait_until(lambda: self.credits > 0, timeout):
            return None
        fence()
        slot = self._slots[self._words[_POSTED] % self.slots]
        self._own(slot, os.getpid(), self.incarnation)
        return slot

    def post(self, slot: Slot) -> None:
        posted = self._words[_POSTED]
        if slot.index != posted % self.slots or not self.credits:
            raise RuntimeError(f"slot {slot.index} was not begun")
        fence()
        self._words[_POSTED] = posted + 1
        self.reader_bell.ring()

    def take(self, timeout: float) -> Slot | None:
        if not self.waiting and not self.reader_bell.wait_until(lambda: self.waiting > 0, timeout):
            return None
        fence()
        taken = self._words[_TAKEN]
        slot = self._slots[taken % self.slots]
        self._own(slot, os.getpid(), self.incarnation)
        self._words[_TAKEN] = taken + 1
        return slot

    def free(self, slot: Slot) -> None:
        freed = self._words[_FREED]
        if slot.index != freed % self.slots or freed >= self._words[_TAKEN]:
            raise RuntimeError(f"slot {slot.index} is not the oldest taken one")
        self._own(slot, 0, 0)
        fence()
        self._words[_FREED] = freed + 1
        self.writer_bell.ring()

    def resume_at(self, posted: int, freed: int) -> None:
        """Go on in the place of another ring, before anybody uses this one: what that one had in flight counts as taken."""
        self._words[_POSTED] = self._words[_TAKEN] = posted
        self._words[_FREED] = freed

    def rewind(self) -> None:
        self._words[_TAKEN] = self._words[_FREED]
        self.reader_bell.ring()

    def reclaim(self) -> int:
        count = super().reclaim()
        self.writer_bell.ring()  # the dead reader may have freed its last slot and died before it rang
        return count

    def owner(self, index: int) -> Owner:
        """Whose slot it is. For eyes and logs: what counts are the counters."""
        at = _OWNERS // 8 + 2 * index
        return Owner(self._words[at], self._words[at + 1])

    def close(self) -> None:
        """Let go of the memory; the arrays of a slot still held stay good until they are dropped."""
        for bell in self._closing:
            bell.close()
        self._slots = []
        self._words.release()
        self._segment.close()

    def _own(self, slot: Slot, pid: int, incarnation: int) -> None:
        at = _OWNERS // 8 + 2 * slot.index
        self._words[at], self._words[at + 1] = pid, incarnation


def _slots_at(slots: int) -> int:
    return _OWNERS + aligned(16 * slots)
