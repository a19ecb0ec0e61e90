"""The sample stream: fragments from actors to trainers, in slots of rings.

An actor writes rows straight into the slot that the trainer will read. The header travels in the slot: it outlives whoever
wrote it, so that rows can be counted even after a crash.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.api.algorithm import Needs
from shoal.api.env import AgentGroup
from shoal.api.fragment import Fragment, FragmentId
from shoal.api.policy import Policy
from shoal.api.policy_spec import PolicyPlan
from shoal.base.arrays import Layout
from shoal.base.tree import Tree, tree_map
from shoal.streams.primitives import Ring, Slot, Waiter
from shoal.streams.transports.memory import NoWaiting

OUTCOMES = ("trained", "inserted", "stale", "not_finite", "lost", "surplus")
"""What becomes of a fragment's rows. inserted: kept for replay; stale: older than `max_lag`; lost: their trainer died with them;
surplus: they came after their policy was through."""
_LEDGER: dict[str, tuple[int, ...]] = {"produced": (), "outcomes": (len(OUTCOMES),), "removed": (2,)}
"""removed: of all rows inserted, those that made room for others, and those that were lost with a buffer."""
_IDS = [(name, np.int64) for name in ("producer", "incarnation", "sequence", "rows", "steps", "version")]
HEADER = np.dtype([*_IDS, *((name, np.int64, (2, *shape)) for name, shape in _LEDGER.items())])
"""rows: valid ones; steps: environment steps behind them; version: the oldest that decided.

The others are the ring's ledger. The writer adds up the rows it posted, the reader what became of them; posting n is recorded in
column n % 2 on top of column (n - 1) % 2 of the posting before: recorded twice, by a process and its successor, it counts once.
"""


def fragment_layout(group: AgentGroup, needs: Needs, policy: Policy, lanes: int, mask_width: int | None) -> Layout:
    """What one slot holds: a fragment of `lanes` lanes, and its header."""
    rows = needs.burn_in + needs.unroll + needs.bootstrap
    extras = policy.extras if needs.stored_extras is None else needs.stored_extras

    def column(shape: tuple[int, ...] = (), dtype: Any = np.float32) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(np.zeros((), dtype), (rows, lanes, *shape), (0,) * (2 + len(shape)))

    fragment = Fragment(
        observation=space_columns(group.observation_space, column),
        action=column(group.action_space.shape or (), action_dtype(group)),
        reward=column(),
        terminated=column(dtype=np.bool_),
        truncated=column(dtype=np.bool_),
        valid=column(dtype=np.bool_),
        first=column(dtype=np.bool_),
        version=column(dtype=np.int64),
        extras={name: column(shape) for name, shape in extras.items()},
        action_mask=column((mask_width,), np.bool_) if mask_width else None,
        state=tree_map(lambda t: t.cpu().numpy(), policy.initial_state(lanes)),
        lanes=np.zeros(lanes, np.int64),
        priority=np.zeros(lanes, np.float32) if _first_priorities(needs) else None,
    )
    return Layout.of({"fragment": vars(fragment), "header": np.zeros((), HEADER)})


def sample_layout(plan: PolicyPlan, producers: int) -> Layout:
    """What one slot of a policy's sample stream holds: the lanes of one of `producers`."""
    algorithm, spec = plan.algorithm, plan.spec
    return fragment_layout(
        plan.stored_group, algorithm.needs, algorithm.policy, spec.lanes // producers, spec.mask_width
    )  # fmt: skip


def _first_priorities(needs: Needs) -> bool:
    return needs.replay is not None and needs.replay.priorities is not None and needs.replay.priorities.first


def space_columns(space: Any, column: Any) -> Tree:
    """The arrays of an observation space, nested as the space is."""
    if isinstance(space, spaces.Dict):
        return {key: space_columns(part, column) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(space_columns(part, column) for part in space.spaces)
    return column(space.shape, space.dtype)


def action_dtype(group: AgentGroup) -> type[np.generic]:
    """Discrete actions are int64, continuous ones float32."""
    return np.float32 if np.issubdtype(group.action_space.dtype, np.floating) else np.int64


@dataclass
class Posted:
    """A slot seen as what it holds."""

    slot: Slot
    fragment: Fragment
    header: np.ndarray
    stale: int = 0
    """Valid rows that were too old when it was taken, and are not valid any more."""

    @property
    def rows(self) -> int:
        """Those to learn from."""
        return int(self.header["rows"]) - self.stale

    @property
    def version(self) -> int:
        """The oldest that decided in a row to learn from."""
        fragment = self.fragment
        return int(fragment.version[fragment.valid].min() if self.stale else self.header["version"])

    @property
    def id(self) -> FragmentId:
        """Who made it."""
        return FragmentId(*(int(self.header[name]) for name in FragmentId._fields))


def _open(slot: Slot) -> Posted:
    return Posted(slot, Fragment(**slot.arrays["fragment"]), slot.arrays["header"])


class SampleWriter:
    """The actor's end of one ring. `posted` counts rounds of the whole run, so a resumed one starts beyond 0."""

    def __init__(self, ring: Ring, producer: int, *, incarnation: int = 0, posted: int = 0) -> None:
        self._ring, self._producer, self._incarnation = ring, producer, incarnation
        self.posted = posted

    def begin(self, timeout: float) -> Posted | None:
        """A free slot, its header filled with who writes it; None if there is no credit."""
        slot = self._ring.begin(timeout)
        if slot is None:
            return None
        opened = _open(slot)
        opened.header["producer"] = self._producer
        opened.header["incarnation"] = self._incarnation
        opened.header["sequence"] = self.posted
        return opened

    def post(self, posted: Posted) -> None:
        """Hand it over."""
        number = self._ring.posted
        posted.header["produced"][number % 2] = _recorded(self._ring, "produced", number) + posted.header["rows"]
        self._ring.post(posted.slot)
        self.posted += 1


class SampleReader:
    """The trainer's end: as many fragments as there are rings make a batch, or `size` of them.

    `exact`: one of each ring, in ring order. Otherwise whatever came first, and rows that are too old are dropped: a fragment may
    begin with decisions that the one before left open, of a version before its own.
    """

    def __init__(self, rings: list[Ring], *, exact: bool = True, waiter: Waiter | None = None, size: int = 0) -> None:
        self._rings, self._exact, self._waiter = rings, exact, waiter or NoWaiting()
        self._size = size or len(rings)
        self._open: list[deque[_Taken]] = [deque() for _ in rings]
        self._batch: list[_Taken] = []
        self._next = self._first_round = 0
        self._removed = np.zeros(2, np.int64)
        self.lost = (0, 0)
        """Rows that an earlier life was learning from, and rows that it kept for replay."""

    def take(self, timeout: float, oldest: int = 0) -> list[Posted] | None:
        """A whole batch; None while one is missing. Experience of versions before `oldest` is dropped, unless exact."""
        if not self._waiter.wait_until(lambda: self.ready(oldest), timeout):
            return None
        if self._exact:
            self._batch.sort(key=lambda taken: taken.ring)
        return [taken.posted for taken in self._batch]

    def ready(self, oldest: int = 0) -> bool:
        """Gather what has come; whether a whole batch is there."""
        for offset in range(len(self._rings)):
            index = (self._next + offset) % len(self._rings)
            while len(self._batch) < self._size and (taken := self._take_from(index)) is not None:
                if self._exact or _drop_old(taken.posted, oldest):
                    self._batch.append(taken)
                else:
                    self._record([taken], "stale")
        return len(self._batch) == self._size

    def _take_from(self, index: int) -> _Taken | None:
        if self._exact and any(taken.ring == index for taken in self._batch):
            return None
        ring = self._rings[index]
        slot = ring.take(0.0)
        while slot is not None and ring.taken <= self._first_round:
            record_outcome(ring, slot, "lost", self._removed)
            slot = ring.take(0.0)
        if slot is None:
            return None
        taken = _Taken(index, _open(slot))
        self._open[index].append(taken)
        return taken

    def free(self, outcome: str = "trained", evicted: int = 0) -> None:
        """Give the batch's slots back: after the version trained on them is published, so that credits bound the lag.

        `evicted`: rows that made room for those of this batch, where it was inserted.
        """
        batch, self._batch = self._batch, []
        self._removed[0] += evicted
        self._next = (self._next + 1) % len(self._rings)
        self._record(batch, outcome)

    def _record(self, batch: list[_Taken], outcome: str) -> None:
        """Note what became of some fragments; a ring's slots go back in their order, so one may wait for another."""
        for taken in batch:
            taken.outcome = outcome
        for index in {taken.ring for taken in batch}:
            queue = self._open[index]
            while queue and queue[0].outcome:
                taken = queue.popleft()
                slot, stale = taken.posted.slot, taken.posted.stale
                record_outcome(self._rings[index], slot, taken.outcome, self._removed, stale=stale)

    def recover(self, first_round: int) -> None:
        """After a reader's death: what it held is lost; in exact runs so is, once it comes, the rest of a round it had begun.

        So are all rows that it had inserted: they are recorded with the next slot that is freed.
        """
        self._first_round = first_round if self._exact else 0
        self._removed[1] = sum(account(ring).held for ring in self._rings)
        held = [(ring, slot) for ring in self._rings for slot in ring.held()]
        self.lost = (sum(int(slot.arrays["header"]["rows"]) for _, slot in held), int(self._removed[1]))
        for ring, slot in held:
            record_outcome(ring, slot, "lost", self._removed)


@dataclass
class _Taken:
    ring: int
    posted: Posted
    outcome: str = ""


def _drop_old(posted: Posted, oldest: int) -> bool:
    """Rows of versions before `oldest` are valid no more; whether any is left."""
    if int(posted.header["version"]) >= oldest:
        return True
    fragment = posted.fragment
    kept = fragment.valid & (fragment.version >= oldest)
    if not kept.any():
        return False
    fragment.valid[:] = kept
    posted.stale = int(posted.header["rows"]) - int(np.count_nonzero(kept))
    return True


# ---------------------------------------------------------------- the ledger


@dataclass(frozen=True)
class Account:
    """Valid rows of one ring or of several: produced = outcomes + in flight, always."""

    produced: int
    outcomes: dict[str, int]
    """What became of them -> how many."""
    in_flight: int
    evicted: int = 0
    """Of those inserted: they made room for others."""
    forgotten: int = 0
    """Of those inserted: the buffer that held them died."""

    @classmethod
    def parse(cls, saved: dict[str, Any]) -> Account:
        """As a checkpoint has it, also an older one."""
        renamed = {"settled": "outcomes"}  # old name
        return cls(**{renamed.get(key, key): value for key, value in saved.items()})

    def __add__(self, other: Account) -> Account:
        outcomes = {name: self.outcomes.get(name, 0) + other.outcomes.get(name, 0) for name in OUTCOMES}
        removed = (self.evicted + other.evicted, self.forgotten + other.forgotten)
        return Account(self.produced + other.produced, outcomes, self.in_flight + other.in_flight, *removed)

    @property
    def held(self) -> int:
        """Rows that can be replayed: all inserted ones that were not removed."""
        return self.outcomes["inserted"] - self.evicted - self.forgotten

    @property
    def named(self) -> dict[str, int]:
        """Rows by what became of them, for people."""
        return {"produced": self.produced, **self.outcomes, "in_flight": self.in_flight}

    @property
    def replayed(self) -> dict[str, int]:
        """What became of those inserted; empty where none was."""
        removed = {"held": self.held, "evicted": self.evicted, "forgotten": self.forgotten}
        return removed if self.outcomes["inserted"] else {}

    def at_rest(self, *, replay: bool) -> Account:
        """As a resumed run takes them over: what was in flight is lost, and without its `replay` what was held is forgotten."""
        forgotten = self.forgotten if replay else self.forgotten + self.held
        outcomes = {**self.outcomes, "lost": self.outcomes["lost"] + self.in_flight}
        return Account(self.produced, outcomes, 0, self.evicted, forgotten)

    @property
    def balanced(self) -> bool:
        """Nothing was lost without a word."""
        return self.produced == sum(self.outcomes.values()) + self.in_flight


NOTHING = Account(0, dict.fromkeys(OUTCOMES, 0), 0)
"""Of no ring at all."""


def record_outcome(
    ring: Ring, slot: Slot, outcome: str, removed: np.ndarray | None = None, *, stale: int = 0
) -> None:  # fmt: skip
    """Record what became of the oldest taken slot, and free it. `removed`: rows evicted and forgotten since, entered with it.

    `stale`: of its rows, those that were left out.
    """
    number, header = ring.freed, slot.arrays["header"]
    header["outcomes"][number % 2] = _recorded(ring, "outcomes", number)
    header["outcomes"][number % 2, OUTCOMES.index(outcome)] += header["rows"] - stale
    header["outcomes"][number % 2, OUTCOMES.index("stale")] += stale
    header["removed"][number % 2] = _recorded(ring, "removed", number)
    if removed is not None and removed.any():
        header["removed"][number % 2] += removed
        removed[:] = 0
    ring.free(slot)


def account(ring: Ring) -> Account:
    """The ledger as it stands now, whoever writes and reads meanwhile."""
    while True:
        posted, freed = ring.posted, ring.freed
        produced = int(_recorded(ring, "produced", posted))
        outcomes = dict(zip(OUTCOMES, _recorded(ring, "outcomes", freed).tolist(), strict=True))
        removed = _recorded(ring, "removed", freed).tolist()
        in_flight = sum(int(ring.look(number).arrays["header"]["rows"]) for number in range(freed, posted))
        if (posted, freed) == (ring.posted, ring.freed):
            return Account(produced, outcomes, in_flight, *removed)


def _recorded(ring: Ring, column: str, number: int) -> np.ndarray:
    """The total before posting `number`."""
    before = ring.look(number - 1).arrays["header"][column] if number else np.zeros(HEADER[column].shape, np.int64)
    return before[(number - 1) % 2].copy()
