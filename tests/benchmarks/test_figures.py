"""The arithmetic of the benchmarks, by numbers that can be worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from figures import Parts, amount_at, cpu_per_million, limit, median, ratio, since_first, slope, warm

SLOW_START = [(0.0, 0), (10.0, 100), (12.0, 300), (13.0, 400), (14.0, 500)]
"""Ten seconds to import and compile, then 100 steps a second."""


def test_warm_up_does_not_count() -> None:
    assert warm(SLOW_START) == ((10.0, 100), (14.0, 500))
    assert slope(SLOW_START) == 100.0
    assert slope(SLOW_START, skip=0.0) == pytest.approx(500 / 14)


@pytest.mark.parametrize("points", [[], [(1.0, 10)], [(1.0, 10), (1.0, 20)]])
def test_without_a_window_there_is_no_rate(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="no window"):
        slope(points)


def test_filling_a_replay_does_not_count() -> None:
    # 500 steps a second while nothing is learned, then 40 steps and 10 updates a second
    steps = [(0.0, 0.0), (1.0, 500.0), (2.0, 540.0), (5.0, 660.0), (12.0, 940.0)]
    updates = [(0.0, 0.0), (1.0, 0.0), (2.0, 10.0), (5.0, 40.0), (12.0, 110.0)]
    assert since_first(updates, steps) == [(2.0, 0.0), (5.0, 120.0), (12.0, 400.0)]
    assert slope(since_first(updates, steps)) == 40.0
    with pytest.raises(ValueError, match="no update"):
        since_first([(0.0, 0.0)], steps)


def test_cpu_is_counted_in_the_same_window() -> None:
    # five seconds of CPU while it started; from then on half a second of CPU in each second
    cpu = [(0.0, 0.0), (9.0, 4.5), (11.0, 5.5), (15.0, 7.5)]
    assert amount_at(cpu, 10.0) == 5.0
    assert cpu_per_million(SLOW_START, cpu) == pytest.approx(1e6 * (7.0 - 5.0) / 400)


def test_beyond_the_samples_nothing_is_made_up() -> None:
    samples = [(1.0, 10.0), (2.0, 20.0)]
    assert [amount_at(samples, moment) for moment in (0.0, 1.5, 9.0)] == [10.0, 15.0, 20.0]


def test_the_limit() -> None:
    parts = Parts(env=4e-6, inference=1e-6, train=5e-6)
    assert limit(2, parts, passes=1) == pytest.approx(200_000)
    assert limit(2, parts, passes=3) == pytest.approx(100_000)
    assert limit(4, parts, passes=3) == pytest.approx(200_000)


def test_a_disturbed_repeat_cancels_out() -> None:
    assert ratio([30.0, 3.0, 32.0], [10.0, 1.0, 8.0]) == 3.0
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0], [1.0])


def test_medians_show_their_spread() -> None:
    assert median([3.0, 1000.0, 2.0]) == "3.0 (2.0 to 1,000.0)"
    assert median([1.0, 2.0], digits=0) == "2 (1 to 2)"
