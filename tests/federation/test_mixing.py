"""Mixing, against the obvious formulas; and what outliers cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.experiment import Experiment
from shoal.api.federation import FederationConfig, MixingConfig
from shoal.base.errors import InputError
from shoal.federation.mixing import Given, Mixer, coordinate_median, shares, trimmed_mean
from shoal.federation.strikes import ASIDE, GOOD, RateLimit, Strikes
from shoal.models.moments import carry_over

seeds = st.integers(0, 2**32 - 1)


def vectors(seed: int, count: int, size: int = 40) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return list(random.normal(size=(count, size)).astype(np.float32))


def mixer(size: int = 40, **settings: Any) -> Mixer:
    return Mixer(MixingConfig(**settings), size)


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1), seeds)
def test_one_child_is_local_training_to_the_bit(arrived: list[float], seed: int) -> None:
    weights = np.array(arrived, np.float32)
    (base,) = vectors(seed, 1, len(weights))
    got = mixer(len(base)).mix(base, [Given("a", weights, base, samples=7)], {"a": 9})
    assert np.array_equal(got, weights)


@settings(deadline=None)
@given(seeds, st.floats(0.1, 2), st.lists(st.integers(1, 1000), min_size=1, max_size=5))
def test_the_mean_of_all(seed: int, lr: float, samples: list[int]) -> None:
    base, *arrived = vectors(seed, 1 + len(samples))
    given_ = [Given(str(i), x, base, n) for i, (x, n) in enumerate(zip(arrived, samples, strict=True))]
    mean = sum(n * (x.astype(float) - base) for x, n in zip(arrived, samples, strict=True)) / sum(samples)
    got = mixer(lr=lr).mix(base, given_, {one.child: one.samples for one in given_})
    np.testing.assert_allclose(got, base + lr * mean, rtol=1e-5, atol=1e-6)
    equal = mixer(lr=lr, weigh="equal").mix(base, given_, {one.child: 1 for one in given_})
    np.testing.assert_allclose(equal, base + lr * (np.mean(arrived, 0, float) - base), rtol=1e-5, atol=1e-6)


@settings(deadline=None)
@given(seeds, st.permutations(range(4)))
def test_the_order_of_children_changes_nothing_but_rounding(seed: int, order: list[int]) -> None:
    base, *arrived = vectors(seed, 5)
    given_ = [Given(str(i), x, base, 10 + i) for i, x in enumerate(arrived)]
    for rule in ("mean", "median", "trimmed"):
        one, other = (mixer(rule=rule).mix(base, part, {}) for part in (given_, [given_[i] for i in order]))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_one_after_the_other_is_as_far_as_all_at_once() -> None:
    """Asynchronously each counts for its part of all who take part."""
    base, one, two = vectors(3, 3)
    active = {"a": 10, "b": 30}
    together = mixer().mix(base, [Given("a", one, base, 10), Given("b", two, base, 30)], active)
    alone = mixer(staleness=0.0)
    first = alone.mix(base, [Given("a", one, base, 10)], active)
    second = alone.mix(first, [Given("b", two, base, 30, staleness=1)], active)
    np.testing.assert_allclose(second, together, rtol=1e-5, atol=1e-6)


@settings(deadline=None)
@given(st.integers(0, 50), st.floats(0, 3))
def test_what_is_stale_counts_less(staleness: int, power: float) -> None:
    (base,) = vectors(1, 1)
    (weight,) = shares([Given("a", base, base, 5, staleness)], {}, power, by_samples=True)
    assert weight == pytest.approx((1 + staleness) ** -power)


def test_a_child_without_samples_counts_for_nothing() -> None:
    (base,) = vectors(1, 1)
    given_ = [Given("a", base, base, 0), Given("b", base, base, 8)]
    assert shares(given_, {}, 0.5, by_samples=True) == [0, 1]
    assert shares([Given("a", base, base, 0)], {}, 0.5, by_samples=True) == [1]


@settings(deadline=None)
@given(seeds)
def test_momentum_is_that_of_nesterov(seed: int) -> None:
    """Against torch's, on the deltas as gradients."""
    base, *deltas = vectors(seed, 5)
    parameter = torch.nn.Parameter(torch.tensor(base, dtype=torch.float64))
    optimiser = torch.optim.SGD([parameter], lr=0.7, momentum=0.9, nesterov=True)
    ours, weights = mixer(lr=0.7, momentum=0.9), base
    for delta in deltas:
        parameter.grad = -torch.tensor(delta, dtype=torch.float64)
        optimiser.step()
        weights = ours.mix(weights, [Given("a", weights + delta, weights, 1)], {})
    np.testing.assert_allclose(weights, parameter.detach().numpy(), rtol=1e-4, atol=1e-4)


def test_delayed_momentum_comes_every_so_many_mixes() -> None:
    base, delta = vectors(2, 2)
    ours, weights = mixer(momentum=0.5, delay=2), base
    weights = ours.mix(weights, [Given("a", weights + delta, weights, 1)], {})
    np.testing.assert_allclose(weights, base + delta, rtol=1e-5, atol=1e-6)
    weights = ours.mix(weights, [Given("a", weights + delta, weights, 1)], {})
    np.testing.assert_allclose(weights, base + 2 * delta + 0.5 * 2 * delta, rtol=1e-4, atol=1e-5)


@settings(deadline=None)
@given(seeds)
def test_a_mixer_goes_on_from_its_state(seed: int) -> None:
    base, one, two = vectors(seed, 3)
    first, second = mixer(momentum=0.9, clip=2.0), mixer(momentum=0.9, clip=2.0)
    weights = first.mix(base, [Given("a", one, base, 3)], {})
    second.restore(first.state())
    again = [Given("a", two, weights, 3)]
    assert np.array_equal(first.mix(weights, again, {}), second.mix(weights, again, {}))


# ---------------------------------------------------------------- outliers


@settings(deadline=None)
@given(seeds, st.integers(3, 7), st.floats(1, 1e6))
def test_one_of_three_cannot_move_median_and_trimmed_mean_beyond_the_others(seed: int, count: int, size: float) -> None:
    *good, bad = [vector.astype(float) for vector in vectors(seed, count)]
    low, high = np.min(good, 0), np.max(good, 0)
    for rule in (coordinate_median, lambda deltas: trimmed_mean(deltas, 0.2)):
        for garbage in (bad * size, -np.mean(good, 0) * size):
            got = rule([*good, garbage])
            assert (got >= low - 1e-9).all()
            assert (got <= high + 1e-9).all()


@settings(deadline=None)
@given(seeds, st.floats(0, 0.49), st.integers(1, 9))
def test_the_trimmed_mean_is_numpys(seed: int, trim: float, count: int) -> None:
    deltas = [vector.astype(float) for vector in vectors(seed, count)]
    cut = min(max(int(trim * count), 1), (count - 1) // 2) if count >= 3 else 0
    np.testing.assert_allclose(trimmed_mean(deltas, trim), np.sort(deltas, axis=0)[cut : count - cut].mean(0))


@settings(deadline=None)
@given(seeds)
def test_a_delta_times_a_thousand_is_shortened(seed: int) -> None:
    base, *deltas = vectors(seed, 8)
    ours = mixer(clip=3.0)
    for delta in deltas[:6]:
        ours.mix(base, [Given("a", base + delta, base, 1)], {})
    usual = np.median([np.linalg.norm(delta) for delta in deltas[:6]])
    got = ours.mix(base, [Given("b", base + 1000 * deltas[6], base, 1)], {})
    assert np.linalg.norm(got - base) <= 3.01 * max(usual, np.linalg.norm(deltas[5]) * 2)


def test_settings_that_mislead_are_refused() -> None:
    with pytest.raises(ValueError, match="quorum = 3"):
        FederationConfig.model_validate({"mixing": {"rule": "median"}})
    with pytest.raises(ValueError, match="delay"):
        FederationConfig.model_validate({"mixing": {"momentum": 0.9}})
    FederationConfig.model_validate({"mixing": {"momentum": 0.9, "rule": "trimmed"}, "quorum": "all"})
    with pytest.raises(InputError, match="federation.quorum"):
        Experiment.parse({"env": "CartPole-v1", "federation": {"quorum": "most"}})


# ---------------------------------------------------------------- normalisers


def moments(rows: np.ndarray) -> np.ndarray:
    return np.concatenate([[len(rows)], rows.mean(0), rows.var(0)])


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 50), st.integers(1, 50), st.integers(1, 50))
def test_normalisers_are_merged_by_counts(seed: int, first: int, mine: int, theirs: int) -> None:
    random = np.random.default_rng(seed)
    start, own, other = (random.normal(3, 2, (n, 4)) for n in (first, mine, theirs))
    origin, here = moments(start), moments(np.concatenate([start, own]))
    there = moments(np.concatenate([start, other]))
    everything = moments(np.concatenate([start, own, other]))
    np.testing.assert_allclose(carry_over(here, origin, there), everything, rtol=1e-7, atol=1e-7)


def test_where_nothing_was_gathered_the_other_end_is_the_answer() -> None:
    random = np.random.default_rng(1)
    one, two = moments(random.normal(size=(9, 3))), moments(random.normal(size=(20, 3)))
    assert np.array_equal(carry_over(two, one, one), two)
    assert np.array_equal(carry_over(one, one, two), two)
    nothing = np.concatenate([[0], np.zeros(3), np.ones(3)])
    np.testing.assert_allclose(carry_over(one, nothing, two)[0], 29)


# ---------------------------------------------------------------- strikes


def test_three_strikes_and_good_rounds_make_up_for_one() -> None:
    strikes = Strikes(3)
    assert not strikes.add("a")
    assert not strikes.add("a")
    for _ in range(GOOD):
        strikes.good("a")
    assert strikes.of("a") == 1
    assert not strikes.add("a")
    assert strikes.add("a")
    for _ in range(5 * GOOD):
        strikes.good("a")
    assert strikes.out("a"), "for good"
    again = Strikes(3)
    again.restore(strikes.state())
    assert again.out("a")
    assert not again.out("b")


def test_rounds_that_are_set_aside_count_in_a_row() -> None:
    """An honest child's are now and then; an attacker's always."""
    strikes = Strikes(3)
    for version in range(20):
        assert not strikes.set_aside("honest", 2 * version)
        assert not strikes.set_aside("honest", 2 * version + 1)
        strikes.good("honest")
    assert strikes.of("honest") == 0
    found = [strikes.set_aside("attacker", version) for version in range(3 * ASIDE)]
    assert found == [False] * (3 * ASIDE - 1) + [True]
    assert not any(strikes.set_aside("unlucky", 7) for _ in range(50)), "nobody was better meanwhile"
    again = Strikes(3)
    again.restore(strikes.state())
    assert again.out("attacker")
    assert not again.out("honest")


def test_a_rate_is_per_address_and_recovers() -> None:
    now = [0.0]
    limit = RateLimit(5, 1.0, lambda: now[0])
    assert [limit.allows("x") for _ in range(7)] == [True] * 5 + [False] * 2
    assert limit.allows("y")
    now[0] = 2.0
    assert [limit.allows("x") for _ in range(3)] == [True, True, False]
    for number in range(10_000):
        limit.allows(str(number))
    assert len(limit._left) <= 4096
