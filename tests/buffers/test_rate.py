"""The rate of draws per row, against every order in which both sides may move."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.buffers.rate import Rate


@settings(deadline=None)
@given(
    per_row=st.floats(0.01, 10),
    warmup=st.integers(1, 200),
    slack=st.floats(0, 100),
    eager=st.floats(0, 1),
    moves=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40)), max_size=200),
)
def test_it_is_bounded_both_ways_and_nobody_waits_for_ever(
    per_row: float, warmup: int, slack: float, eager: float, moves: list[tuple[float, int]]
) -> None:
    """`eager`: how often the trainer is the one that would move."""
    rate = Rate(per_row, warmup, slack)
    for dice, rows in moves:
        assert rate.may_insert or rate.may_draw
        if dice < eager and rate.may_draw:
            rate.draws += 1
        elif dice >= eager and rate.may_insert:
            rate.rows += rows
        worth = (rate.rows - warmup) * per_row
        if rate.draws:
            assert rate.rows >= warmup
            assert rate.draws <= worth + slack * per_row + 1 + 1e-6
        if rate.rows > warmup:
            assert rate.draws >= worth - (slack + 40) * per_row - 1e-6


@pytest.mark.parametrize("eager", ["actors", "trainer"])
def test_whoever_hurries_ends_up_waiting_for_the_other(eager: str) -> None:
    rate = Rate(per_row=0.5, warmup=10, slack=8)
    for _ in range(1000):
        if rate.may_insert if eager == "actors" else not rate.may_draw:
            rate.rows += 4
        else:
            rate.draws += 1
    assert rate.draws / (rate.rows - 10) == pytest.approx(0.5, abs=0.01)
    assert rate.rows > 500
    assert (rate.ahead > 0) == (eager == "actors")
