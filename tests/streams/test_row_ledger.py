"""The ledger of the sample stream: whoever dies, and whenever, produced = outcomes + in flight, and nothing is trained twice."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.algorithm import Needs
from shoal.api.fragment import FragmentId
from shoal.streams.primitives import Slot
from shoal.streams.sample import (
    OUTCOMES,
    Account,
    Posted,
    SampleReader,
    SampleWriter,
    account,
    fragment_layout,
    record_outcome,
)
from shoal.streams.transports.memory import MemoryRing
from tests.streams.test_streams import GROUP, Echo

LAYOUT = fragment_layout(GROUP, Needs(1), Echo(), 1, None)


def settled(**counts: int) -> dict[str, int]:
    """What became of rows; of all other outcomes there are none."""
    return {**dict.fromkeys(OUTCOMES, 0), **counts}


class DiedError(Exception):
    """The process is no more."""


class MortalRing(MemoryRing):
    """Whoever posts or frees may die just before or just after it counts; the ring notes what became of every fragment."""

    def __init__(self, slots: int) -> None:
        super().__init__(LAYOUT, slots)
        self.dies: str | None = None
        self.produced = 0
        self.fates: list[tuple[FragmentId, str]] = []

    def post(self, slot: Slot) -> None:
        self._maybe("before")
        self.produced += int(slot.arrays["header"]["rows"])
        super().post(slot)
        self._maybe("after")

    def free(self, slot: Slot) -> None:
        self._maybe("before")
        before = account(self).outcomes
        super().free(slot)
        outcome = next((name for name, count in account(self).outcomes.items() if count != before[name]), "")
        header = slot.arrays["header"]
        self.fates.append((FragmentId(*(int(header[name]) for name in FragmentId._fields)), outcome))
        self._maybe("after")

    def _maybe(self, when: str) -> None:
        if self.dies == when:
            self.dies = None
            raise DiedError


class World:
    """Writers, one reader, and their rings. A death is a new object in the place of the old one."""

    def __init__(self, rings: int, slots: int, *, exact: bool) -> None:
        self.rings = [MortalRing(slots) for _ in range(rings)]
        self.exact, self.version, self.lives = exact, 0, [0] * rings
        self.writers = [SampleWriter(ring, index) for index, ring in enumerate(self.rings)]
        self.reader = SampleReader(list(self.rings), exact=exact)
        self.batch: list[Posted] | None = None

    def post(self, index: int, rows: int, lag: int = 0, *, dies: str | None = None) -> bool:
        posted = self.writers[index].begin(0.0)
        if posted is None:
            return False
        posted.header["rows"], posted.header["version"] = rows, self.version - lag
        self.rings[index].dies = dies if dies != "begun" else None
        try:
            if dies == "begun":
                raise DiedError
            self.writers[index].post(posted)
        except DiedError:
            self.new_writer(index)
        return True

    def new_writer(self, index: int) -> None:
        self.lives[index] += 1
        ring = self.rings[index]
        self.writers[index] = SampleWriter(ring, index, incarnation=self.lives[index], posted=ring.posted)

    def take(self, oldest: int = 0) -> bool:
        self.batch = self.batch or self.reader.take(0.0, oldest)
        return self.batch is not None

    def free(self, outcome: str, *, dies: tuple[int, str] | None = None) -> None:
        if self.batch is None:
            return
        if dies is not None:
            self.rings[dies[0]].dies = dies[1]
        try:
            self.reader.free(outcome)
        except DiedError:
            self.new_reader()
        for ring in self.rings:
            ring.dies = None
        self.batch = None
        self.version += 1

    def new_reader(self) -> None:
        self.batch = None
        self.reader = SampleReader(list(self.rings), exact=self.exact)
        self.reader.recover(max(ring.taken for ring in self.rings))

    def check(self) -> Account:
        ledger = sum(map(account, self.rings[1:]), account(self.rings[0]))
        assert ledger.balanced
        assert ledger.produced == sum(ring.produced for ring in self.rings)
        ids = [id_ for ring in self.rings for id_, _ in ring.fates]
        assert len(set(ids)) == len(ids)
        return ledger

    def goes_on(self) -> bool:
        """Whether a batch can still be trained, with nothing but writers that write."""
        for _ in range(10):
            for index in range(len(self.rings)):
                self.post(index, 1)
            if self.take(self.version):
                return True
        return False


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_rows_are_booked_once_whatever_became_of_them(slots: int, exact: bool) -> None:
    world = World(2, slots, exact=exact)
    expected = dict.fromkeys(OUTCOMES, 0)
    for round_ in range(8):
        outcome = ("trained", "not_finite")[round_ % 3 == 2]
        assert world.post(0, 10 + round_)
        assert world.check().in_flight == 10 + round_
        assert not world.take()
        assert world.post(1, 20 + round_)
        assert world.take()
        world.free(outcome)
        expected[outcome] += 30 + 2 * round_
        ledger = world.check()
        assert (ledger.outcomes, ledger.in_flight) == (expected, 0)


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("when", ["before", "after"])
def test_booked_twice_counts_once(slots: int, when: str) -> None:
    """A reader dies beside the moment of freeing, a writer beside that of posting; their successors book the same slot again."""
    world = World(1, slots, exact=True)
    for round_ in range(7):
        world.post(0, 5, dies=when)
        if when == "before":
            assert world.check().in_flight == 0
            world.post(0, 5)
        assert world.take()
        world.free("trained", dies=(0, when))
        ledger = world.check()
        died = {"before": "lost", "after": "trained"}[when]
        assert ledger.produced == ledger.outcomes[died] == 5 * (round_ + 1)
        assert ledger.in_flight == 0


def test_settle_books_the_oldest_and_frees_it() -> None:
    ring = MortalRing(2)
    writer = SampleWriter(ring, 0)
    for rows in (3, 4):
        posted = writer.begin(0.0)
        assert posted is not None
        posted.header["rows"] = rows
        writer.post(posted)
    first, second = ring.take(0.0), ring.take(0.0)
    assert first is not None
    assert second is not None
    with pytest.raises(RuntimeError, match="not the oldest"):
        record_outcome(ring, second, "trained")
    record_outcome(ring, first, "stale")
    assert account(ring) == Account(7, settled(trained=0, stale=3, lost=0), 4)


def test_accounts_add_up() -> None:
    one = Account(5, {"trained": 2, "lost": 1}, 2)
    assert one.balanced
    assert one + one == Account(10, settled(trained=4, lost=2), 4)
    assert not Account(5, {"trained": 2, "lost": 1}, 1).balanced


def test_a_reader_replaced_within_a_round_loses_the_whole_round_where_runs_are_exact() -> None:
    world = World(3, 2, exact=True)
    world.post(0, 1)
    world.post(2, 1)
    assert not world.take()  # it holds the fragments of rings 0 and 2
    world.new_reader()
    assert world.check().outcomes["lost"] == 2
    world.post(0, 10)
    world.post(1, 100)  # the rest of the round that died
    assert not world.take()
    assert world.check().outcomes["lost"] == 102
    world.post(1, 10)
    world.post(2, 10)
    assert world.take()
    assert [int(posted.header["sequence"]) for posted in world.batch or []] == [1, 1, 1]
    world.free("trained")
    assert world.check() == Account(132, settled(trained=30, stale=0, lost=102), 0)


def test_a_reader_replaced_within_a_round_loses_what_it_held_elsewhere() -> None:
    world = World(3, 2, exact=False)
    world.post(0, 1)
    world.post(2, 1)
    assert not world.take()
    world.new_reader()
    for index, rows in enumerate((10, 100, 10)):
        world.post(index, rows)
    assert world.take()
    world.free("trained")
    assert world.check() == Account(122, settled(trained=120, stale=0, lost=2), 0)


def test_a_stale_fragment_waits_for_an_open_one_before_it() -> None:
    """Slots go back in their order: the books must not either run ahead."""
    world = World(2, 3, exact=False)
    world.version = 9
    world.post(0, 1)
    world.post(0, 10, lag=5)
    assert not world.take(oldest=8)
    assert (world.rings[0].taken, world.rings[0].freed) == (2, 0)
    assert world.check().in_flight == 11
    world.post(1, 100)
    assert world.take(oldest=8)
    assert world.rings[0].freed == 0
    world.free("trained")
    assert world.rings[0].freed == 2
    assert world.check() == Account(111, settled(trained=101, stale=10, lost=0), 0)


@pytest.mark.parametrize("outcome", ["trained", "inserted", "not_finite"])
def test_only_rows_that_are_too_old_are_left_out_of_a_fragment(outcome: str) -> None:
    """A fragment begins with decisions that the one before left open: those are of an older version, the others are not."""
    layout = fragment_layout(GROUP, Needs(3), Echo(), 2, None)
    ring = MemoryRing(layout, 1)
    writer, reader = SampleWriter(ring, 0), SampleReader([ring], exact=False)
    for versions, kept in ([[5, 6], [6, 6], [6, 6]], 5), ([[4, 5], [5, 6], [6, 6]], 3):
        posted = writer.begin(0.0)
        assert posted is not None
        posted.fragment.valid[:], posted.fragment.valid[:3] = False, True
        posted.fragment.version[:3] = versions
        posted.header["rows"], posted.header["version"] = 6, min(min(row) for row in versions)
        writer.post(posted)
        taken = reader.take(0.0, oldest=6)
        assert taken is not None
        (got,) = taken
        assert (got.rows, got.version, int(got.fragment.valid.sum())) == (kept, 6, kept)
        assert (got.fragment.version[got.fragment.valid] == 6).all()
        assert account(ring).balanced
        reader.free(outcome)
    assert account(ring) == Account(12, settled(**{outcome: 8}, stale=4), 0)


RING, WHEN = st.integers(0, 2), st.sampled_from(["before", "after"])
MOVES = st.one_of(
    st.tuples(st.just("post"), RING, st.integers(0, 9), st.integers(0, 3)),
    st.tuples(st.just("post and die"), RING, st.integers(0, 9), st.sampled_from(["begun", "before", "after"])),
    st.tuples(st.just("take"), st.integers(0, 2)),
    st.tuples(st.just("free"), st.sampled_from(["trained", "not_finite"])),
    st.tuples(st.just("free and die"), RING, WHEN),
    st.tuples(st.just("reader dies")),
    st.tuples(st.just("writer dies"), RING),
)


def move(world: World, name: str, *how: object) -> None:
    ring = int(how[0]) % len(world.rings) if how and isinstance(how[0], int) else 0
    if name == "post":
        world.post(ring, how[1], how[2])  # type: ignore[arg-type]
    elif name == "post and die":
        world.post(ring, how[1], dies=how[2])  # type: ignore[arg-type]
    elif name == "take":
        world.take(world.version - how[0])  # type: ignore[operator]
    elif name == "free":
        world.free(str(how[0]))
    elif name == "free and die":
        world.free("trained", dies=(ring, str(how[1])))
    elif name == "reader dies":
        world.new_reader()
    else:
        world.new_writer(ring)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.booleans(), st.lists(MOVES, max_size=40))
def test_the_books_hold_whatever_happens(rings: int, slots: int, exact: bool, moves: list[tuple[object, ...]]) -> None:
    world = World(rings, slots, exact=exact)
    for name, *how in moves:
        move(world, str(name), *how)
        world.check()
        held = [posted.id for posted in world.batch or []]
        assert len(set(held)) == len(held)
    assert world.goes_on()
    world.free("trained")
    world.check()
    assert all(ring.freed == ring.taken for ring in world.rings)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9), st.sampled_from([None, "before", "after"])), max_size=30),
)
def test_what_replay_holds_is_what_the_books_say(slots: int, moves: list[tuple[int, int, str | None]]) -> None:
    """A buffer of three fragments that dies beside the moment of freeing, and takes with it all that it held."""
    world, kept = World(2, slots, exact=False), []
    world.reader = SampleReader(list(world.rings), exact=False, size=1)
    for ring, rows, dies in moves:
        world.post(ring, rows)
        batch = world.reader.take(0.0)
        assert batch is not None
        kept.append(rows)
        evicted = sum(kept[:-3])
        kept = kept[-3:]
        world.rings[ring].dies = dies
        try:
            world.reader.free("inserted", evicted)
        except DiedError:
            kept = []
            world.reader = SampleReader(list(world.rings), exact=False, size=1)
            world.reader.recover(0)
        ledger = world.check()
        assert ledger.held - int(world.reader._removed.sum()) == sum(kept)
    world.post(0, 5)
    assert world.reader.take(0.0) is not None
    world.reader.free("inserted", sum(kept[:-2]))
    ledger = world.check()
    assert ledger.held == sum(kept[-2:]) + 5
    assert ledger.outcomes["inserted"] == ledger.held + ledger.evicted + ledger.forgotten
    assert ledger.replayed == {"held": ledger.held, "evicted": ledger.evicted, "forgotten": ledger.forgotten}


def test_accounts_of_older_checkpoints_are_read() -> None:
    saved = {"in_flight": 4, "settled": {"trained": 2}, "evicted": 1, "forgotten": 0, "produced": 6}
    assert Account.parse(saved) == Account(6, {"trained": 2}, 4, 1) == Account.parse(asdict(Account.parse(saved)))
