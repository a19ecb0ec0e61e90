"""The batch stream: parts of batches from buffer workers to a trainer, and the priorities that come back.

A shard samples straight into the slot that the trainer learns from. Both ways are rings, so nobody waits for the other's work:
parts are made ahead, and priorities change what is drawn from then on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import NamedTuple

import numpy as np

from shoal.api.fragment import PER_LANE, Fragment
from shoal.base.arrays import Layout
from shoal.base.tree import Tree, tree_map
from shoal.streams.primitives import Ring, Slot, Waiter
from shoal.streams.transports.memory import NoWaiting

AHEAD = 4
"""Parts that a shard may have ready."""
RETURNS = 4 * AHEAD
"""Slots of a ring of priorities: one that is full has a reader that is gone or hangs."""
PATIENCE = 1.0
"""Seconds that a part may be missing while others are there, before the trainer does without it."""

FACTS = np.dtype(
    [*((name, np.int64) for name in ("rows", "steps", "filled", "held", "evicted", "stale")), ("greatest", "f8")]
)
"""rows, steps: valid rows inserted, and environment steps behind them, since the part before; the others are of the shard as it was
drawn from: sequences and valid rows held, rows evicted, stale priorities, the greatest priority."""


def lanes_of(example: Fragment, lanes: int) -> Fragment:
    """As `example`, with so many lanes, all of them its first; without what only says how a fragment came."""
    first = np.zeros(lanes, np.int64)

    def columns(name: str) -> Tree:
        return tree_map(lambda leaf: leaf.take(first, 0 if name in PER_LANE else 1), getattr(example, name))

    return Fragment(**{field.name: columns(field.name) for field in fields(Fragment) if field.default is MISSING})


def part_layout(example: Fragment) -> Layout:
    """What a slot holds; `example` has as many lanes as a part has sequences."""
    lanes = len(example.lanes)
    columns = {"keys": np.zeros(lanes, np.int64), "chances": np.zeros(lanes), "facts": np.zeros((), FACTS)}
    return Layout.of({"fragment": vars(example), **columns})


def priority_layout(lanes: int) -> Layout:
    """What goes back for one part."""
    return Layout.of({"keys": np.zeros(lanes, np.int64), "priorities": np.zeros(lanes, np.float32)})


@dataclass
class Part:
    """A slot seen as what it holds, and the shard it is of."""

    shard: int
    slot: Slot
    fragment: Fragment
    """`[R, k, ...]`: the sequences."""
    keys: np.ndarray
    """`[k]`"""
    chances: np.ndarray
    """`[k]`: within the shard."""
    facts: np.ndarray
    """See FACTS."""

    def told(self) -> dict[str, float]:
        """The facts by name."""
        return {name: self.facts[name].item() for name in FACTS.names or ()}


def _open(shard: int, slot: Slot) -> Part:
    arrays = slot.arrays
    return Part(shard, slot, Fragment(**arrays["fragment"]), arrays["keys"], arrays["chances"], arrays["facts"])


class Returned(NamedTuple):
    """Priorities that came back: a slot, seen as what it holds."""

    slot: Slot
    keys: np.ndarray
    """`[k]`"""
    priorities: np.ndarray
    """`[k]`"""


class PartWriter:
    """A shard's end: parts out, priorities in."""

    def __init__(self, parts: Ring, priorities: Ring) -> None:
        self._parts, self._priorities = parts, priorities

    def begin(self) -> Part | None:
        """A slot to sample into; None while all wait to be learned from."""
        slot = self._parts.begin(0.0)
        return None if slot is None else _open(0, slot)

    def post(self, part: Part) -> None:
        """Hand it over."""
        self._parts.post(part.slot)

    def returned(self) -> Returned | None:
        """Priorities of a part, good until `done`."""
        slot = self._priorities.take(0.0)
        return None if slot is None else Returned(slot, slot.arrays["keys"], slot.arrays["priorities"])

    def done(self, returned: Returned) -> None:
        """They were taken in."""
        self._priorities.free(returned.slot)

    def recover(self) -> None:
        """After a death: what it was reading is gone."""
        self._priorities.reclaim()


class BatchReader:
    """The trainer's end: one part of every shard makes a batch.

    It begins with all of them. Later, one that is missing for `patience` seconds while others are there is no longer waited for,
    until it gives again.
    """

    def __init__(
        self, parts: list[Ring], priorities: list[Ring], *, waiter: Waiter | None = None, patience: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._parts, self._priorities, self._waiter = parts, priorities, waiter or NoWaiting()
        self._patience, self._clock = patience, clock
        self._absent: set[int] = set()
        self._began, self._since = False, math.inf
        self.unreturned = 0
        """Priorities that found no room, since their shard does not take them."""

    @property
    def shards(self) -> int:
        """How many parts a whole batch has."""
        return len(self._parts)

    def take(self, timeout: float) -> list[Part] | None:
        """The parts of a batch, in the order of shards; None while one is missing that is waited for."""
        if not self._waiter.wait_until(self.ready, timeout):
            return None
        self._began, self._since = True, math.inf
        taken = ((shard, ring.take(0.0)) for shard, ring in enumerate(self._parts))
        return [_open(shard, slot) for shard, slot in taken if slot is not None]

    def ready(self) -> bool:
        """A batch is there, as whole as it is waited for."""
        there = {shard for shard, ring in enumerate(self._parts) if ring.posted > ring.taken}
        self._absent -= there
        missing = set(range(self.shards)) - there - self._absent
        if not missing or not there:
            return bool(there)
        self._since = min(self._since, self._clock())
        if not self._began or self._clock() - self._since < self._patience:
            return False
        self._absent |= missing
        return True

    def free(self, parts: list[Part]) -> None:
        """Give the slots back: their arrays are no longer looked at."""
        for part in parts:
            self._parts[part.shard].free(part.slot)

    def give_back(self, part: Part, priorities: np.ndarray) -> None:
        """What the sequences of a part turned out to be worth. Never waits."""
        slot = self._priorities[part.shard].begin(0.0)
        if slot is None:
            self.unreturned += len(priorities)
            return
        slot.arrays["keys"][:], slot.arrays["priorities"][:] = part.keys, priorities
        self._priorities[part.shard].post(slot)

    def recover(self) -> None:
        """After a death: the parts it held are gone, which are copies."""
        for ring in self._parts:
            ring.reclaim()
