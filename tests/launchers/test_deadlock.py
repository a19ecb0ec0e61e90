"""Policies that wait for each other's actors: when that is so, and what is ordered then. Standings made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from shoal.api.orders import Flush
from shoal.launchers.deadlock import Standing, flushes

Standings = dict[str, Standing]


def program(producers: int, *, exact: bool = True, max_lag: int = 0) -> Any:
    """As much of a Program as this goes by."""
    return SimpleNamespace(producers=producers, exact=exact, max_lag=max_lag, slots=max_lag + 1)


def at(version: int, *posted: int) -> Standing:
    """Of an exact run."""
    return Standing(version, posted, tuple(max(0, round_ - version) for round_ in posted))


def loose(version: int, posted: tuple[int, ...], *waiting: int) -> Standing:
    """Of a run that is not."""
    return Standing(version, posted, waiting)


# ---------------------------------------------------------------- exact


def test_nothing_where_somebody_can_go_on() -> None:
    two = program(2)
    assert flushes(two, {"a": at(0, 0, 0), "b": at(0, 0, 0)}) == [], "nobody waits"
    assert flushes(two, {"a": at(0, 1, 0), "b": at(0, 0, 0)}) == [], "the second plays on"
    assert flushes(two, {"a": at(4, 5, 4), "b": at(7, 7, 7)}) == [], "wherever they are"


def test_nothing_where_a_policy_has_a_whole_round() -> None:
    assert flushes(program(2), {"a": at(0, 1, 1), "b": at(0, 0, 0)}) == []
    assert flushes(program(2), {"a": at(3, 4, 3), "b": at(0, 1, 1)}) == []


def test_a_cycle_is_broken_by_the_fragments_that_are_lacking() -> None:
    """Each waits for a version that lacks the fragment of the other."""
    assert flushes(program(2), {"a": at(0, 1, 0), "b": at(0, 0, 1)}) == [Flush(1, "a", 0)]
    assert flushes(program(2), {"a": at(5, 5, 6), "b": at(9, 10, 9)}) == [Flush(0, "a", 5)]


def test_the_policy_that_lacks_least_is_helped() -> None:
    three = program(3)
    assert flushes(three, {"a": at(0, 1, 0, 0), "b": at(2, 2, 3, 3)}) == [Flush(0, "b", 2)]
    assert flushes(three, {"a": at(0, 1, 0, 1), "b": at(2, 2, 3, 2)}) == [Flush(1, "a", 0)]
    lacking_two = {"a": at(0, 1, 0, 0), "b": at(0, 0, 1, 0), "c": at(0, 0, 0, 1)}
    assert flushes(three, lacking_two) == [Flush(1, "a", 0), Flush(2, "a", 0)], "of equals, the first"


def test_lag_lets_them_go_on_for_longer() -> None:
    lagging = program(2, max_lag=1)
    assert flushes(lagging, {"a": at(0, 1, 0), "b": at(0, 0, 1)}) == []
    assert flushes(lagging, {"a": at(0, 2, 0), "b": at(0, 0, 1)}) == [], "the second plays on"
    assert flushes(lagging, {"a": at(0, 2, 0), "b": at(0, 0, 2)}) == [Flush(1, "a", 0)]
    assert flushes(lagging, {"a": at(0, 2, 1), "b": at(0, 0, 2)}) == [], "a has a whole round"


def test_who_is_obeyed_each_time_never_stops() -> None:
    """Actors that fill fragments in different orders: stuck again and again, and each time one set of orders leads out."""
    three, posted, version = program(3), {"a": [0, 0, 0], "b": [0, 0, 0]}, {"a": 0, "b": 0}
    fills, filled, stuck = ["aab", "bba", "abb"], [0, 0, 0], 0
    for _ in range(300):
        before = (dict(version), {name: list(rounds) for name, rounds in posted.items()})
        for producer in range(3):
            if all(posted[name][producer] <= version[name] for name in posted):
                name = fills[producer][filled[producer] % 3]
                filled[producer] += 1
                posted[name][producer] += 1
        for name in posted:
            version[name] += all(round_ > version[name] for round_ in posted[name])
        orders = flushes(three, {name: at(version[name], *posted[name]) for name in posted})
        stuck += bool(orders)
        for order in orders:
            assert posted[order.policy][order.producer] == order.round == version[order.policy]
            posted[order.policy][order.producer] += 1
        for name in posted:
            version[name] += all(round_ > version[name] for round_ in posted[name])
        assert (version, posted) != before
    assert stuck > 10
    assert min(version.values()) > 50


# ---------------------------------------------------------------- not exact


def test_not_exact_nothing_where_somebody_can_go_on() -> None:
    three = program(3, exact=False, max_lag=1)
    assert flushes(three, {"a": loose(0, (2, 0, 0), 2, 0, 0), "b": loose(0, (0, 2, 0), 0, 2, 0)}) == []
    free = {"a": loose(0, (1, 1, 0), 1, 1, 0), "b": loose(0, (0, 0, 2), 0, 0, 2)}
    assert flushes(three, free) == [], "they have slots left"


def test_not_exact_any_fragments_are_a_round() -> None:
    """Two of one producer and one of another are three."""
    three = program(3, exact=False, max_lag=1)
    whole = {"a": loose(0, (2, 1, 0), 2, 1, 0), "b": loose(0, (0, 2, 2), 0, 2, 2)}
    assert flushes(three, whole) == []


def test_not_exact_a_cycle_is_broken_by_those_who_have_nothing_there() -> None:
    three = program(3, exact=False, max_lag=1)
    stuck = {
        "a": loose(4, (9, 4, 6), 2, 0, 0),
        "b": loose(4, (4, 7, 5), 0, 2, 0),
        "c": loose(4, (4, 4, 8), 0, 0, 2),
    }
    assert flushes(three, stuck) == [Flush(1, "a", 4), Flush(2, "a", 6)]
    # with one slot each
    two = program(2, exact=False)
    assert flushes(two, {"a": loose(0, (3, 2), 1, 0), "b": loose(0, (5, 6), 0, 1)}) == [Flush(1, "a", 2)]
