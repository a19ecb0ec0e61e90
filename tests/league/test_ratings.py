"""Ratings and their intervals, on players whose strength is known."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.env import Array
from shoal.league.ratings import expected, rate, win_rate

TRUE = np.arange(5) * 100.0 - 200.0


def played(dice: np.random.Generator, games: int) -> Array:
    wins = np.zeros((5, 5))
    for first in range(5):
        for second in range(first):
            won = dice.binomial(games, expected(TRUE[first] - TRUE[second]))
            wins[first, second], wins[second, first] = won, games - won
    return wins


@pytest.mark.parametrize(("games", "error"), [(100, 16.5), (400, 8.3)])
def test_intervals_hold_what_they_promise(games: int, error: float) -> None:
    dice, held, errors = np.random.default_rng(7), [], []
    for _ in range(300):
        ratings = rate(played(dice, games))
        bounds = [ratings.interval(player) for player in range(5)]
        held += [low <= true <= high for (low, high), true in zip(bounds, TRUE, strict=True)]
        errors.append(ratings.errors.mean())
    assert 0.93 <= np.mean(held) <= 0.97
    assert np.mean(errors) == pytest.approx(error, rel=0.03)


def test_a_circle_of_winners_is_of_equal_strength() -> None:
    """Elo's own rule, game by game, gives +368, -148 and -221 to these in some order of the games."""
    wins = np.array([[0, 100, 0], [0, 0, 100], [100, 0, 0]])
    assert rate(wins).points == pytest.approx([0, 0, 0], abs=1e-6)


def test_the_order_of_players_does_not_matter() -> None:
    wins = played(np.random.default_rng(1), 30)
    turned = rate(wins[::-1, ::-1]).points[::-1]
    assert rate(wins).points == pytest.approx(turned)


def test_who_won_everything_has_a_rating() -> None:
    ratings = rate(np.array([[0, 20], [0, 0]]))
    assert 200 < ratings.points[0] < 2000
    assert np.isfinite(ratings.errors).all()
    assert ratings.separated(0, 1)


def test_draws_are_half_of_both() -> None:
    few = rate(np.array([[0, 2], [0, 0]]), np.array([[0, 8], [8, 0]]))
    halves = rate(np.array([[0, 6], [4, 0]]))
    assert few.points == pytest.approx(halves.points)


def test_two_of_equal_strength_are_not_separated() -> None:
    assert not rate(np.array([[0, 52], [48, 0]])).separated(0, 1)
    assert rate(np.array([[0, 65], [35, 0]])).separated(0, 1)


def test_players_that_never_met_are_uncertain() -> None:
    wins = np.zeros((3, 3))
    wins[0, 1] = wins[1, 0] = 50
    ratings = rate(wins)
    difference = np.array([1.0, -1.0, 0.0])
    assert ratings.errors[2] > 5 * np.sqrt(difference @ ratings.covariance @ difference)


def test_win_rates_have_intervals() -> None:
    assert win_rate(0, 0, 0) == (0.5, 0.0, 1.0)
    share, low, high = win_rate(60, 10, 30)
    assert share == 0.65
    assert (low, high) == pytest.approx((0.5525, 0.7364), abs=1e-4)
    assert win_rate(20, 0, 0)[1:] == pytest.approx((0.8389, 1.0), abs=1e-4)
