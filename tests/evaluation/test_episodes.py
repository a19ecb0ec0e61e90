"""Whole episodes to evaluate by: every copy plays its share, and neither counting nor a limit of time favours short ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shoal.api.evaluation import Scores, bootstrap_interval
from shoal.api.experiment import EnvConfig
from shoal.base.seeding import Noise
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.evaluation.episodes import EpisodeBatch, copies_for
from shoal.rollout.players import FixedInference, RandomPolicy
from shoal.rollout.seat import Seat
from tests.envs.sample_worlds import Counting


def sit(lengths: list[int], episodes: int, clock: Callable[[], float] = lambda: 0.0, **limits: Any) -> EpisodeBatch:
    """Copies whose episodes have these lengths, and earn 1 + 2 + 3 + ..."""
    env = GymnasiumLoop([Counting(length) for length in lengths], "counting")
    policy = RandomPolicy(env.groups["agent"])
    seat = Seat("agent", "agent", FixedInference(policy, explore=True), Noise(1, "x", np.arange(len(lengths)), 1), None)
    return EpisodeBatch(env, [seat], episodes, seed=1, scored=["agent"], clock=clock, **limits)


def play(batch: EpisodeBatch, each: Callable[[], None] = lambda: None) -> Scores:
    while not batch.over:
        batch.step()
        each()
    return batch.scores()


def test_every_copy_plays_its_share() -> None:
    scores = play(sit([2, 7], 6))
    assert sorted(scores.lengths) == [2, 2, 2, 7, 7, 7]
    assert sorted(scores.returns) == [3, 3, 3, 28, 28, 28]
    assert scores.metrics == {"doubled": (4 + 14) / 2}
    assert sorted(play(sit([2, 7], 5)).lengths) == [2, 2, 2, 7, 7]
    assert (scores.mean, scores.length) == (15.5, 4.5)


def test_what_began_in_time_counts_however_long_it_is() -> None:
    """At the limit, after 5 steps, the short copy is in its third episode, the long one in its first: both finish."""
    now = [0.0]

    def tick() -> None:
        now[0] += 1.0

    scores = play(sit([2, 50], 100, lambda: now[0], seconds=5.0), tick)
    assert scores.lengths == [2, 50, 2, 2]
    assert now[0] == 50


def test_a_limit_beyond_the_end_is_none() -> None:
    assert len(play(sit([2, 7], 6, seconds=1.0)).returns) == 6


def test_at_least_one_episode_of_every_copy_counts() -> None:
    assert sorted(play(sit([3, 4], 6, seconds=0.0)).lengths) == [3, 4]


@pytest.mark.parametrize(("episodes", "copies"), [(1, 1), (32, 32), (100, 100), (101, 51), (250, 84)])
def test_copies(episodes: int, copies: int) -> None:
    assert copies_for(episodes, EnvConfig(id="shoal/chain")) == copies


def test_games_outside_are_not_multiplied() -> None:
    assert copies_for(100, EnvConfig(id="unity:Game.x86_64", num_envs=4)) == 4


# ---------------------------------------------------------------- intervals


def slow_interval(values: list[float], resamples: int = 4000) -> tuple[float, float]:
    """Straight from the definition: sort the means of samples drawn with replacement, cut off 2.5 % at either end."""
    random = np.random.default_rng(123)
    means = sorted(sum(values[random.integers(len(values))] for _ in values) / len(values) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples)]


@pytest.mark.parametrize("kind", ["even", "skewed", "two"])
def test_intervals_are_those_of_the_definition_and_of_scipy(kind: str) -> None:
    random = np.random.default_rng(5)
    values = {
        "even": random.normal(100, 20, 32),
        "skewed": random.exponential(50, 32),
        "two": np.array([0.0] * 20 + [500.0] * 12),
    }[kind]
    low, high = bootstrap_interval(values.tolist())
    scipy = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=4000, rng=random).confidence_interval
    atom = 500 / 32 if kind == "two" else 0.0  # means are multiples of it
    slack = atom + 0.2 * values.std() / np.sqrt(len(values))  # what 2,000 draws leave open, several times over
    for reference in (slow_interval(values.tolist()), (scipy.low, scipy.high)):
        assert low == pytest.approx(reference[0], abs=slack)
        assert high == pytest.approx(reference[1], abs=slack)
    assert bootstrap_interval(values.tolist()) == (low, high)


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    """Of 32 draws from a normal distribution: 95 %, less what the bootstrap of few is too narrow by."""
    random = np.random.default_rng(9)
    held = 0
    for _ in range(400):
        low, high = bootstrap_interval(random.normal(3.0, 2.0, 32).tolist())
        held += low <= 3.0 <= high
    assert 0.90 <= held / 400 <= 0.98


def test_intervals_of_one_and_of_equal_values() -> None:
    assert bootstrap_interval([7.0]) == (7.0, 7.0)
    assert bootstrap_interval([7.0] * 10) == (7.0, 7.0)


def test_many_values_are_drawn_in_parts() -> None:
    values = np.random.default_rng(1).normal(0, 1, 30_000)
    low, high = bootstrap_interval(values.tolist())
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(30_000), rel=0.1)
