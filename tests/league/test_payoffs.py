"""Payoff tables: piece by piece as all at once, and both as one would count by hand."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.env import Array
from shoal.api.league import LIVE, MATCH, Member
from shoal.league.payoffs import FADES, Payoffs
from tests.league.test_journal import some_matches


def by_hand(matches: Array) -> dict[tuple[Member, Member], list[float]]:
    """Games, points and earnings of the first against the second, match by match."""
    found: dict[tuple[Member, Member], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for m in matches:
        first, second = (int(m["asker"]), int(m["own"])), (int(m["opponent"]), int(m["member"]))
        if first == second:
            continue
        left = FADES if LIVE in (first[1], second[1]) else 1.0
        for one, other, won, lost in (
            (first, second, m["earned"], m["against"]),
            (second, first, m["against"], m["earned"]),
        ):
            known = found[one, other]
            known[:] = [left * value for value in known]
            known[0] += 1
            known[1] += 1.0 if won > lost else 0.5 if won == lost else 0.0
            known[2] += float(won)
    return found


@given(st.integers(0, 10_000), st.integers(1, 120), st.lists(st.integers(0, 120), max_size=6))
def test_piece_by_piece_equals_all_at_once_and_by_hand(seed: int, count: int, cuts: list[int]) -> None:
    matches = some_matches(count, seed)
    whole, grown = Payoffs(), Payoffs()
    whole.add(matches)
    for part in np.split(matches, sorted(cut for cut in cuts if cut < count)):
        grown.add(part)
    for (first, second), (games, points, earned) in by_hand(matches).items():
        for payoffs in (whole, grown):
            at = payoffs.place(first), payoffs.place(second)
            assert payoffs.games[at] == pytest.approx(games)
            assert payoffs.points[at] == pytest.approx(points)
            assert payoffs.earned[at] == pytest.approx(earned, abs=1e-9)


def test_who_never_met_is_expected_to_win_half() -> None:
    payoffs = Payoffs()
    assert payoffs.win_rate((0, 0), (0, 1)) == (0.5, 0.0)
    assert payoffs.means([(0, 0)], [(0, 1)]) == [[0.0]]


def test_errors_shrink_with_games() -> None:
    matches = np.zeros(400, MATCH)
    matches["own"], matches["member"] = 0, 1
    matches["earned"] = np.tile([1.0, -1.0], 200)
    matches["against"] = -matches["earned"]
    payoffs = Payoffs()
    payoffs.add(matches[:100])
    wide = payoffs.errors([(0, 0)], [(0, 1)])[0, 0]
    assert wide == pytest.approx(0.1)
    payoffs.add(matches[100:])
    assert payoffs.errors([(0, 0)], [(0, 1)])[0, 0] == pytest.approx(0.05)
