"""The three primitives a transport gives: streams are made of Ring and Mailbox, replicas of a trainer meet in a Tally."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shoal.base.errors import ShoalError
from shoal.base.tree import Tree


@dataclass
class Slot:
    """One place of a ring: arrays to write into or to read, and their index."""

    index: int
    arrays: Tree


class Waiter(Protocol):
    """How a process waits for any of the things it waits for."""

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> bool:
        """Ask `ready` again whenever something happened; False if it did not hold within `timeout` seconds."""


class Ring(ABC):
    """Fixed slots, one writer, one reader. Slots are posted, taken and freed in order; free slots are the writer's credits.

    The counters outlive whoever moved them, and only grow but for `rewind`: freed <= taken <= posted <= freed + slots.
    """

    slots: int

    @property
    @abstractmethod
    def posted(self) -> int:
        """Slots posted since the ring was made, by all its writers: where the next one goes on."""

    @property
    @abstractmethod
    def taken(self) -> int:
        """Slots taken since the ring was made, by all its readers."""

    @property
    @abstractmethod
    def freed(self) -> int:
        """Slots freed since the ring was made."""

    @abstractmethod
    def look(self, number: int) -> Slot:
        """The slot that posting `number` (from 0) was written into, whoever has it now."""

    @abstractmethod
    def begin(self, timeout: float) -> Slot | None:
        """Writer: the next free slot to fill, or None if none was freed in time. Asking again gives the same slot."""

    @abstractmethod
    def post(self, slot: Slot) -> None:
        """Writer: hand the slot from `begin` over."""

    @abstractmethod
    def take(self, timeout: float) -> Slot | None:
        """Reader: the oldest posted slot not taken yet, or None."""

    @abstractmethod
    def free(self, slot: Slot) -> None:
        """Reader: give the oldest taken slot back."""

    def held(self) -> list[Slot]:
        """Taken and not freed, oldest first: what a dead reader held. A new one calls `reclaim` or `rewind`, or looks first."""
        return [self.look(number) for number in range(self.freed, self.taken)]

    @abstractmethod
    def rewind(self) -> None:
        """A new reader, once the old one is dead: what that one had taken and not freed is taken again, in order, by `take`."""

    def reclaim(self) -> int:
        """A new reader, once the old one is dead: free what that one held, and say how many slots it was."""
        held = self.held()
        for slot in held:
            self.free(slot)
        return len(held)


class Mailbox(ABC):
    """Versions of one block of bytes, mostly the newest: one writer, many readers that never block it."""

    @abstractmethod
    def publish(self, version: int, block: np.ndarray, keep: Collection[int] = ()) -> None:
        """Writer: make `block` (uint8) readable as `version`; the oldest held version goes that is not in `keep`.

        There is room for fewer in `keep` than the mailbox has versions.
        """

    @abstractmethod
    def latest(self) -> int:
        """The newest version, -1 before the first."""

    @abstractmethod
    def read(self, version: int, into: np.ndarray) -> bool:
        """Copy `version` into `into`; False if it is not there (any more, or yet)."""


class AbandonedError(ShoalError):
    """Nobody waits in this tally any more: a participant died, or the run ends."""


class Tally(ABC):
    """Vectors summed over `ranks` participants, round by round.

    All participants make the same calls in the same order. Each adds up all parts itself, in the order of ranks, so all get equal
    bits whoever comes last. Nobody returns from a round before every rank has brought its part, so a participant that dies leaves
    the others waiting, never with a wrong sum. Ending that wait is the owner's part: `abandon`.
    """

    ranks: int
    nbytes: int
    """Room for one vector."""

    @abstractmethod
    def sum(self, rank: int, vector: np.ndarray, timeout: float) -> np.ndarray:
        """The sum of what all ranks brought to this round: float32 or float64 `[n]`, good until this rank's next call.

        TimeoutError names the ranks that did not come; the same call again goes on waiting. ValueError, on all ranks alike: they
        brought different lengths or dtypes. AbandonedError: the owner gave up.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Owner: whoever waits, or calls later, gets an AbandonedError at once."""

    @abstractmethod
    def renew(self) -> None:
        """Owner, once all participants are gone: new ones may begin, at round 0."""
