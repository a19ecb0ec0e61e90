"""The statistics of several runs, against brute force: every resample that there is, one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.analysis.statistics import bootstrap_interval, interquartile_mean

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


def slow_iqm(values: list[float]) -> float:
    """Straight from the definition: a quarter of the values, rounded down, leaves at each end."""
    rest = sorted(values)
    for _ in range(math.floor(0.25 * len(values))):
        rest = rest[1:-1]
    return sum(rest) / len(rest)


def every_resample(strata: list[list[float]]) -> list[float]:
    """The interquartile means of all resamples, each as likely as the other."""
    choices = [list(itertools.product(stratum, repeat=len(stratum))) for stratum in strata]
    return [slow_iqm([value for part in parts for value in part]) for parts in itertools.product(*choices)]


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=23))
def test_interquartile_mean(values: list[float]) -> None:
    assert float(interquartile_mean(values)) == pytest.approx(slow_iqm(values), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([7], 7),
        ([1, 2, 6], 3),  # fewer than four: the mean
        ([0, 4, 6, 1000], 5),
        ([-1000, 1, 2, 3, 1000], 2),
        ([-9, -9, 1, 2, 3, 4, 99, 99], 2.5),
    ],
)
def test_known_interquartile_means(values: list[float], mean: float) -> None:
    assert interquartile_mean(values) == mean


def test_interquartile_mean_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(3).normal(size=(5, 18))
    np.testing.assert_allclose(interquartile_mean(values), stats.trim_mean(values, 0.25, axis=1))


@pytest.mark.parametrize(
    "strata",
    [
        [[1.0, 2.0, 4.0, 8.0, 16.0]],
        [[10.0, 11.0, 13.0], [100.0, 130.0]],
        [[3.0, 5.0]],
        [[0.0, 1.0, 2.0], [50.0]],
    ],
)
def test_the_interval_is_that_of_all_resamples(strata: list[list[float]]) -> None:
    exact = every_resample(strata)
    low, high = bootstrap_interval(strata, resamples=40_000)
    # Between the quantiles half a percent to either side: draws differ from all resamples by chance.
    for found, share in ((low, 2.5), (high, 97.5)):
        below, above = np.percentile(exact, [share - 0.5, share + 0.5], method="inverted_cdf")
        assert below <= found <= above, (strata, found, share)


def test_strata_are_drawn_within_themselves() -> None:
    """Two settings far apart, each certain: together they are certain, though the runs differ."""
    assert bootstrap_interval([[0.0, 0.0], [100.0, 100.0]]) == (50.0, 50.0)
    low, high = bootstrap_interval([[0.0, 0.0, 100.0, 100.0]])
    assert low < 25 < 75 < high


def test_one_run_has_no_interval_and_equal_draws_are_equal() -> None:
    assert all(math.isnan(end) for end in bootstrap_interval([[3.0]]))
    values = [np.random.default_rng(1).normal(size=7)]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_more_confidence_is_wider() -> None:
    values = [np.random.default_rng(0).normal(size=9)]
    narrow, wide = (bootstrap_interval(values, confidence=share) for share in (0.5, 0.99))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_the_interval_covers_the_truth() -> None:
    """Of 20 normal values the interval holds the true centre in most of 200 trials; a percentile bootstrap runs a little short."""
    random = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        low, high = bootstrap_interval([random.normal(size=20)], resamples=500)
        held += low <= 0 <= high
    assert 170 <= held <= 198
