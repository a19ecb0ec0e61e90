"""The parent's weights without a network: contributions in, versions and answers out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.api.federation import FederationConfig
from shoal.federation.codecs import Sender
from shoal.federation.frames import FrameError
from shoal.federation.global_model import GlobalModel
from shoal.federation.layout import Layout
from shoal.federation.messages import Contribution, Parcel, Weights
from shoal.federation.uplink import parse_statistics

LAYOUT = Layout((("0.w", (20, 30)),), [2])
NOTHING = np.array([0.0, 0, 0, 1, 1])


def model(**settings: Any) -> GlobalModel:
    start = np.random.default_rng(0).normal(size=600).astype(np.float32)
    return GlobalModel(FederationConfig(**settings), LAYOUT, start, NOTHING)


class Pupil:
    """A child, by hand."""

    def __init__(self, parent: GlobalModel, name: str, encoding: str = "fp32", session: str = "0" * 32) -> None:
        self.parent, self.name, self.session = parent, name, session
        self.codec = LAYOUT.codec(encoding, FederationConfig().share)
        self.sender = Sender(self.codec)
        self.round, self.samples = 0, 10
        self.random = np.random.default_rng(sum(name.encode()))
        self.join()

    def join(self, number: int = 1) -> Weights:
        parcel = self.parent.join(self.name, number, self.session, "this machine")
        self.weights = LAYOUT.codec("fp32", 1.0).decode(parcel.blocks[0], np.zeros(0, np.float32))
        return self.take(parcel)

    def take(self, parcel: Parcel) -> Weights:
        header = parcel.header
        assert isinstance(header, Weights)
        if not header.whole:
            self.weights = self.codec.decode(parcel.blocks[0], self.weights)
        self.statistics, self.version = parse_statistics(parcel.blocks[1]), header.version
        return header

    def give(
        self, delta: np.ndarray | None = None, *, statistics: np.ndarray | None = None, base: int | None = None
    ) -> Any:
        delta = self.random.normal(size=600) * 0.01 if delta is None else delta
        self.aim = (self.weights + delta).astype(np.float32)
        data, _ = self.sender.send(self.aim, self.weights)
        header = Contribution(
            round=self.round, base=self.version if base is None else base, samples=self.samples, updates=1, seconds=1.0,
            error=0.0, score=3.0, episodes=1,
        )  # fmt: skip
        self.round += 1
        values = self.statistics if statistics is None else statistics
        return self.parent.take(self.name, header, (data, values.tobytes()), 700, now=0.0)


def test_one_child_is_the_parent_to_the_bit() -> None:
    parent = model()
    child = Pupil(parent, "anna")
    for version in range(1, 6):
        child.give()
        parent.mix(parent.ready(0.0))
        assert parent.version == version
        assert parent.weights.tobytes() == child.aim.tobytes()
        child.take(parent.answer("anna", "mixed"))
        assert child.weights.tobytes() == child.aim.tobytes()


@pytest.mark.parametrize("encoding", ["fp32", "fp16", "int8", "top_k"])
def test_both_ends_know_what_a_child_has(encoding: str) -> None:
    parent = model(encoding=encoding)
    children = [Pupil(parent, name, encoding) for name in ("anna", "bert")]
    for round_ in range(30):
        child = children[round_ % 2]
        child.give()
        parent.mix(parent.ready(0.0))
        child.take(parent.answer(child.name, "mixed"))
        assert parent.children[child.name].base.tobytes() == child.weights.tobytes()
    for _ in range(500):  # nobody learns any more: what was kept back arrives in the end
        for child in children:
            child.give(np.zeros(600))
            parent.mix(parent.ready(0.0))
            child.take(parent.answer(child.name, "mixed"))
    for child in children:
        np.testing.assert_allclose(child.weights, parent.weights, atol=2e-3)


def test_synchronously_all_are_waited_for_and_no_longer_than_patience() -> None:
    parent = model(quorum="all", patience=30)
    anna, bert = Pupil(parent, "anna"), Pupil(parent, "bert")
    anna.give()
    assert not parent.ready(29.0)
    assert parent.ready(30.0), "late"
    bert.give()
    ready = parent.ready(1.0)
    assert len(ready) == 2
    before = parent.weights.astype(float)
    parent.mix(ready)
    np.testing.assert_allclose(
        parent.weights, before + (anna.aim - before + bert.aim - before) / 2, rtol=1e-4, atol=1e-5
    )
    anna.give() if anna.take(parent.answer("anna", "mixed")) else None
    parent.leave("bert", 1)
    assert parent.ready(1.0), "who has left is not waited for"


def test_who_is_slow_delays_nobody_and_counts_less() -> None:
    parent = model()
    slow, fast = Pupil(parent, "slow"), Pupil(parent, "fast")
    for _ in range(3):
        fast.give()
        parent.mix(parent.ready(0.0))
        fast.take(parent.answer("fast", "mixed"))
    before = parent.weights.astype(float)
    slow.give(np.ones(600))
    mixed = parent.mix(parent.ready(0.0))
    assert mixed.staleness == 3
    np.testing.assert_allclose(parent.weights - before, 0.5 * 4**-0.5, rtol=1e-4)


def test_the_normalisers_of_all_are_added_up() -> None:
    parent = model()
    rows = np.random.default_rng(1).normal(3, 2, (60, 2))
    moments = lambda part: np.array([len(part), *part.mean(0), *part.var(0)])  # noqa: E731
    anna, bert = Pupil(parent, "anna"), Pupil(parent, "bert")
    anna.give(statistics=moments(rows[:20]))
    parent.mix(parent.ready(0.0))
    assert np.array_equal(parent.statistics, moments(rows[:20])), "the first is taken as it is"
    bert.give(statistics=moments(rows[20:]))
    parent.mix(parent.ready(0.0))
    np.testing.assert_allclose(parent.statistics, moments(rows))


def test_what_is_wrong_is_refused_and_changes_nothing() -> None:
    parent = model()
    child = Pupil(parent, "anna")
    before = parent.weights.copy()
    for wrong in (
        {"base": 5},
        {"delta": np.full(600, np.inf)},
        {"statistics": np.array([np.nan, 0, 0, 1, 1])},
        {"statistics": np.array([5, 0, 0, -1, 1.0])},
        {"statistics": np.array([-5, 0, 0, 1, 1.0])},
    ):
        with pytest.raises(FrameError), np.errstate(all="ignore"):
            child.give(**wrong)
    assert not parent.ready(1e9)
    assert np.array_equal(parent.weights, before)
    child.round = 0
    with pytest.raises(FrameError, match="is due"):
        child.give(), "a round counts once"


def test_nobody_counts_for_more_by_saying_so() -> None:
    parent = model()
    honest, liar = Pupil(parent, "honest"), Pupil(parent, "liar")
    honest.give()
    parent.mix(parent.ready(0.0))
    liar.samples = 10**12
    before = parent.weights.astype(float)
    liar.give(np.ones(600))
    parent.mix(parent.ready(0.0))
    assert (parent.weights - before < 0.76 * 2**-0.5).all()


def test_a_child_that_comes_back_hears_whether_its_round_was_taken() -> None:
    parent = model()
    child = Pupil(parent, "anna")
    child.give()
    parent.mix(parent.ready(0.0))
    assert child.join(number=2).answers == 0
    assert not parent.leave("anna", 1), "that was its last connection"
    other = Pupil(parent, "anna", session="1" * 32)
    assert other.join(number=3).answers == -1, "a new life"


def test_what_is_pending_when_a_child_comes_back_is_asked_for_again() -> None:
    """Otherwise it would be answered twice."""
    parent = model(quorum="all")
    anna, bert = Pupil(parent, "anna"), Pupil(parent, "bert")
    anna.give()
    assert anna.join(number=5).answers == -1
    assert not parent.pending
    anna.give(), bert.give()
    assert len(parent.ready(0.0)) == 2


def test_a_parent_that_was_killed_goes_on_and_asks_again_for_what_was_pending() -> None:
    parent = model(quorum="all", mixing={"momentum": 0.5})
    anna, bert = Pupil(parent, "anna"), Pupil(parent, "bert")
    anna.give(), bert.give()
    parent.mix(parent.ready(0.0))
    anna.take(parent.answer("anna", "mixed"))
    parent.strikes.add("bert")
    anna.give()  # pending: it was never mixed
    again = model(quorum="all", mixing={"momentum": 0.5})
    again.restore(parent.state())
    assert (again.version, again.steps) == (1, 20)
    assert np.array_equal(again.weights, parent.weights)
    assert again.strikes.of("bert") == 1
    anna.parent = again
    assert anna.join().answers == 0, "round 1 is not among those that were taken"


def test_what_is_set_aside_brings_the_child_back() -> None:
    parent = model(accept={"episodes": 4})
    child = Pupil(parent, "anna")
    pending = child.give()
    assert not parent.ready(1e9), "not examined yet"
    before = parent.weights.copy()
    parcel = parent.set_aside(pending)
    assert parcel is not None
    assert child.take(parcel).verdict == "set aside"
    assert np.array_equal(child.weights, before)
    assert not parent.pending


def examined(parent: GlobalModel, **scores: tuple[float, bool]) -> None:
    """Child -> its score, and whether that is significantly worse."""
    for pending in parent.pending:
        score, worse = scores[pending.child]
        parent.examined(pending, score, worse=worse)


def test_who_gave_something_worse_is_not_waited_for() -> None:
    """The others make the version, as if they were all; then it goes back to that one."""
    parent = model(quorum="all", accept={"episodes": 4})
    anna, bert, eve = (Pupil(parent, name) for name in ("anna", "bert", "eve"))
    before = parent.weights.astype(float)
    for child in (eve, anna, bert):
        child.give()
    parent.examined(parent.pending[0], 9.0, worse=True)
    assert not parent.ready(0.0)
    assert not parent.turned_away(0.0), "perhaps all others are worse as well"
    examined(parent, anna=(50.0, False), bert=(60.0, False), eve=(9.0, True))
    ready = parent.ready(0.0)
    assert [pending.child for pending in ready] == ["anna", "bert"]
    parent.mix(ready)
    np.testing.assert_allclose(parent.weights, before + (anna.aim + bert.aim - 2 * before) / 2, rtol=1e-4, atol=1e-5)
    (aside,) = parent.turned_away(0.0)
    parcel = parent.set_aside(aside)
    assert parcel is not None
    header = eve.take(parcel)
    assert (header.verdict, header.version) == ("set aside", 1)
    assert np.array_equal(eve.weights, parent.weights)
    assert not parent.pending


def test_where_all_are_worse_the_better_half_is_taken() -> None:
    """Otherwise a version that was lucky once would be the last."""
    parent = model(quorum="all", accept={"episodes": 4})
    for name in ("anna", "bert", "eve"):
        Pupil(parent, name).give()
    examined(parent, anna=(50.0, True), bert=(60.0, True), eve=(9.0, True))
    ready = parent.ready(0.0)
    assert {pending.child for pending in ready} == {"anna", "bert"}
    assert not parent.turned_away(0.0)
    parent.mix(ready)
    assert [pending.child for pending in parent.turned_away(0.0)] == ["eve"]


def test_of_two_nobody_outvotes_the_evaluation() -> None:
    parent = model(quorum="all", accept={"episodes": 4})
    for name in ("anna", "eve"):
        Pupil(parent, name).give()
    examined(parent, anna=(50.0, True), eve=(9.0, True))
    assert not parent.ready(1e9)
    assert len(parent.turned_away(0.0)) == 2


def test_nobody_waits_for_the_verdict_of_others_for_long() -> None:
    parent = model(accept={"episodes": 4}, patience=30)
    anna, bert = Pupil(parent, "anna"), Pupil(parent, "bert")
    anna.give()
    examined(parent, anna=(1.0, True))
    assert not parent.turned_away(29.0)
    assert len(parent.turned_away(30.0)) == 1
    bert.give()
    examined(parent, anna=(1.0, True), bert=(50.0, False))
    assert [pending.child for pending in parent.ready(0.0)] == ["bert"], "asynchronously it is mixed at once"
