"""The bandit of PB2: the kernel and the posterior against slow formulas, a maximum that is known, and what a journal tells it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from shoal.api.population import PopulationConfig, RangeConfig
from shoal.base.errors import InputError
from shoal.population import bandit
from shoal.population.bandit import Kernel, Seen
from shoal.population.pb2 import Interval, intervals, next_values

KERNEL = Kernel(length=0.3, noise=0.2, forget=0.1, variance=1.7)


def drawn(count: int, dimensions: int = 2, seed: int = 0) -> Seen:
    random = np.random.default_rng(seed)
    return Seen(
        random.integers(0, 9, count).astype(float), random.random((count, dimensions)), random.normal(size=count)
    )


def slow_kernel(kernel: Kernel, t: float, x: np.ndarray, u: float, y: np.ndarray) -> float:
    """Equation 7 of Bogunovic et al., with the squared exponential for its space."""
    distance = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return kernel.variance * math.exp(-distance / (2 * kernel.length**2)) * (1 - kernel.forget) ** (abs(t - u) / 2)


def slow_posterior(kernel: Kernel, seen: Seen, t: float, x: np.ndarray) -> tuple[float, float]:
    """Rasmussen and Williams, equations 2.25 and 2.26, with the inverse written out."""
    n = len(seen.gains)
    own = np.array(
        [[slow_kernel(kernel, seen.times[i], seen.places[i], seen.times[j], seen.places[j]) for j in range(n)]
         for i in range(n)]
    )  # fmt: skip
    inverse = np.linalg.inv(own + kernel.variance * kernel.noise * np.eye(n))
    across = np.array([slow_kernel(kernel, seen.times[i], seen.places[i], t, x) for i in range(n)])
    return float(across @ inverse @ seen.gains), float(kernel.variance - across @ inverse @ across)


def test_the_kernel() -> None:
    one, two = drawn(5, seed=1), drawn(7, seed=2)
    found = bandit.covariance(KERNEL, one.times, one.places, two.times, two.places)
    for i in range(5):
        for j in range(7):
            wanted = slow_kernel(KERNEL, one.times[i], one.places[i], two.times[j], two.places[j])
            assert found[i, j] == pytest.approx(wanted, rel=1e-12)


def test_the_posterior() -> None:
    seen, at = drawn(12), drawn(6, seed=3)
    mean, variance = bandit.posterior(KERNEL, seen, at.times, at.places)
    for i in range(6):
        wanted = slow_posterior(KERNEL, seen, at.times[i], at.places[i])
        assert (mean[i], variance[i]) == pytest.approx(wanted, rel=1e-9)


def test_what_was_seen_long_ago_says_less() -> None:
    """One observation has a closed form."""
    seen = Seen(np.array([0.0]), np.array([[0.5]]), np.array([2.0]))
    ages = np.array([0.0, 1.0, 4.0])
    mean, variance = bandit.posterior(KERNEL, seen, ages, np.full((3, 1), 0.5))
    kept = (1 - KERNEL.forget) ** (ages / 2) / (1 + KERNEL.noise)
    assert mean == pytest.approx(2.0 * kept)
    assert variance == pytest.approx(KERNEL.variance * (1 - kept**2 * (1 + KERNEL.noise)))


def test_the_kernel_is_the_likeliest_of_the_grid() -> None:
    """Against the density of the normal distribution itself."""
    seen = drawn(15, dimensions=1, seed=4)
    smooth = seen._replace(gains=np.sin(4 * seen.places[:, 0]))
    found = bandit.fit(smooth)

    def density(kernel: Kernel) -> float:
        own = bandit.covariance(kernel, smooth.times, smooth.places, smooth.times, smooth.places)
        own += kernel.variance * kernel.noise * np.eye(15)
        sign, logarithm = np.linalg.slogdet(2 * math.pi * own)
        assert sign == 1
        return float(-0.5 * (logarithm + smooth.gains @ np.linalg.inv(own) @ smooth.gains))

    best = density(found)
    for variance in (0.5, 2.0):
        assert density(found._replace(variance=variance * found.variance)) < best
    for other in (Kernel(0.05, 0.3, 0.0), Kernel(3.0, 1.0, 0.4), Kernel(0.3, 0.01, 0.4)):
        assert max(density(other._replace(variance=v)) for v in np.geomspace(0.01, 10, 50)) < best
    assert found.noise == 0.01
    assert found.forget == 0.0


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_a_maximum_that_is_known_is_found(dimensions: int) -> None:
    top = np.linspace(0.15, 0.85, dimensions)

    def hills(places: np.ndarray) -> np.ndarray:
        near = np.exp(-20 * ((places - top) ** 2).sum(1))
        return near + 0.5 * np.exp(-20 * ((places - (1 - top) / 2) ** 2).sum(1))

    found = bandit.maximise(hills, dimensions, np.random.default_rng(5))
    assert hills(found[None])[0] >= hills(top[None])[0] - 1e-3
    edge = bandit.maximise(lambda places: places.sum(1), dimensions, np.random.default_rng(6))
    assert edge == pytest.approx(np.ones(dimensions), abs=1e-3)


def test_the_best_place_is_proposed_and_followed_when_it_moves() -> None:
    """The best place moves from 0.2 to 0.8: who forgets goes along."""
    random = np.random.default_rng(7)
    times = np.repeat(np.arange(20.0), 4)
    places = random.random((80, 1))
    top = np.where(times < 10, 0.2, 0.8)
    gains = 30 - 100 * (places[:, 0] - top) ** 2 + random.normal(0, 0.5, 80)
    early = Seen(times[:40], places[:40], gains[:40])
    first = bandit.propose(early, np.empty((0, 1)), 10, np.random.default_rng(8))
    assert first.place[0] == pytest.approx(0.2, abs=0.1)
    assert first.mean == pytest.approx(30, abs=3)
    last = bandit.propose(Seen(times, places, gains), np.empty((0, 1)), 20, np.random.default_rng(8))
    assert last.place[0] == pytest.approx(0.8, abs=0.1)


def test_who_tries_already_takes_away_from_the_bound_and_from_nothing_else() -> None:
    seen, pending, at = drawn(9), drawn(3, seed=11).places, drawn(5, seed=12).places
    time = 12.0
    found = bandit.upper_bound(KERNEL, seen, pending, time, at)
    both = Seen(
        np.append(seen.times, [time] * 3), np.concatenate([seen.places, pending]), np.append(seen.gains, [0.0] * 3)
    )
    for i, place in enumerate(at):
        mean, _ = slow_posterior(KERNEL, seen, time, place)
        _, variance = slow_posterior(KERNEL, both, time, place)
        assert found[i] == pytest.approx(mean + math.sqrt((0.2 + math.log(0.4 * time)) * variance), rel=1e-9)
    alone = bandit.upper_bound(KERNEL, seen, np.empty((0, 2)), time, pending)
    assert (bandit.upper_bound(KERNEL, seen, pending, time, pending) < alone - 0.1).all()


# ---------------------------------------------------------------- from a journal

SPACE = {"lr": RangeConfig(log=[1e-5, 1e-1]), "count": RangeConfig(linear=[1, 8], whole=True)}


def turn(member: str, score: float | None) -> dict[str, Any]:
    return {"kind": "turn", "member": member, "score": None if score is None else {"mean": score}}


def test_intervals_have_their_settings_and_begin_with_the_score_of_the_donor() -> None:
    lines = [
        {"kind": "member", "member": "a", "values": {"lr": 1e-3}},
        {"kind": "member", "member": "b", "values": {"lr": 1e-4}},
        turn("a", 10.0), turn("b", 2.0),
        {"kind": "compared", "decisions": [
            {"kind": "copied", "member": "b", "best": 10.0}, {"kind": "changed", "member": "b", "values": {"lr": 5e-3}}]},
        turn("a", 15.0), turn("b", 30.0),
        {"kind": "compared", "decisions": []},
        turn("a", None), turn("b", 31.0),
    ]  # fmt: skip
    assert intervals(lines) == [
        Interval(1, {"lr": 1e-3}, 5.0), Interval(1, {"lr": 5e-3}, 20.0), Interval(2, {"lr": 5e-3}, 1.0),
    ]  # fmt: skip


def test_values_are_of_the_space_and_follow_from_the_seed() -> None:
    random = np.random.default_rng(10)
    known = [
        Interval(
            n, {"lr": float(10 ** random.uniform(-5, -1)), "count": int(random.integers(1, 9))}, float(random.normal())
        )
        for n in range(1, 30)
    ]
    found = [next_values(SPACE, known, [{"lr": 1e-3, "count": 2}], 30, np.random.default_rng(n)) for n in (1, 1, 2)]
    assert found[0] == found[1]
    values, reason = found[0]
    assert 1e-5 <= values["lr"] <= 1e-1
    assert type(values["count"]) is int
    assert reason.startswith("the bandit expects ")
    assert "29 intervals" in reason
    nothing, why = next_values(SPACE, [], [], 0, np.random.default_rng(1))
    assert why.startswith("drawn from the space")
    assert 1 <= nothing["count"] <= 8


def test_a_choice_is_no_number() -> None:
    with pytest.raises(InputError, match="model.hidden is a choice"):
        PopulationConfig.parse({"explore": "pb2", "space": {"model.hidden": {"choice": [[8], [16]]}}})
