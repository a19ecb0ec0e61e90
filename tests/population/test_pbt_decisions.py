"""Exploit and explore: ranges and their scales, who copies from whom, and the quadratic of the paper with its four answers."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.population import PopulationConfig, RangeConfig
from shoal.base.errors import InputError
from shoal.population import exploit, space
from shoal.population.state import Score

LR, GAMMA = RangeConfig(log=[1e-5, 1e-1]), RangeConfig(logit=[0.9, 0.999])
WIDTH, COUNT = RangeConfig(linear=[-1.0, 3.0]), RangeConfig(linear=[1, 8], whole=True)
KIND = RangeConfig(choice=["a", "b", "c"])


@pytest.mark.parametrize("range_", [LR, GAMMA, WIDTH])
def test_a_value_is_a_place_and_back(range_: RangeConfig) -> None:
    low, high = range_.bounds
    assert (space.from_unit(range_, 0.0), space.from_unit(range_, 1.0)) == (low, high)
    for place in np.linspace(0, 1, 11):
        assert space.to_unit(range_, space.from_unit(range_, place)) == pytest.approx(place, abs=1e-9)
    assert (space.to_unit(range_, low - 1e-6), space.to_unit(range_, high + 1e-6)) == (0.0, 1.0)


def test_the_middle_is_that_of_the_scale() -> None:
    assert space.from_unit(LR, 0.5) == pytest.approx(1e-3)
    assert space.from_unit(WIDTH, 0.5) == 1.0
    ends = np.array([0.9, 0.999])
    middle = np.log(ends / (1 - ends)).mean()
    assert space.from_unit(GAMMA, 0.5) == pytest.approx(1 / (1 + np.exp(-middle)))


def test_steps_stay_inside_and_keep_their_type() -> None:
    everything = {"lr": LR, "gamma": GAMMA, "width": WIDTH, "count": COUNT, "kind": KIND}
    random = np.random.default_rng(0)
    values = space.draw(everything, random)
    for _ in range(500):
        values = space.perturb(everything, values, 0.3, random)
        assert 1e-5 <= values["lr"] <= 1e-1
        assert 0.9 <= values["gamma"] <= 0.999
        assert type(values["count"]) is int
        assert 1 <= values["count"] <= 8
        assert values["kind"] in ("a", "b", "c")


def test_a_whole_number_or_a_choice_does_move() -> None:
    """A step too small to see would leave them where they are for ever."""
    only, random = {"count": COUNT, "kind": KIND}, np.random.default_rng(1)
    for _ in range(50):
        moved = space.perturb(only, {"count": 4, "kind": "b"}, 1e-6, random)
        assert moved["count"] in (3, 5)
        assert moved["kind"] in ("a", "c")


def test_the_size_of_a_step_is_a_part_of_the_range() -> None:
    random = np.random.default_rng(2)
    moved = [space.perturb({"lr": LR}, {"lr": 1e-3}, 0.1, random)["lr"] for _ in range(4000)]
    assert np.std(np.log10(moved)) == pytest.approx(0.1 * 4, rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({}, "give one of"), ({"log": [0.0, 1.0]}, "no such number"), ({"logit": [0.5, 1.0]}, "no such number"),
     ({"linear": [2, 1]}, "smaller number first"), ({"log": [1, 2], "linear": [1, 2]}, "give one of")],
)  # fmt: skip
def test_wrong_ranges(wrong: dict[str, list[float]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        RangeConfig.parse(wrong)


def test_wrong_populations() -> None:
    ranges = {"algorithm.lr": {"log": [1e-5, 1e-2]}}
    with pytest.raises(InputError, match="equal steps"):
        PopulationConfig.parse({"every": "5m", "space": ranges})
    with pytest.raises(InputError, match="episodes"):
        PopulationConfig.parse({"separate": True, "space": ranges})


# ---------------------------------------------------------------- who copies


def scores(**means: float) -> dict[str, Score]:
    return {name: Score(100, mean) for name, mean in means.items()}


def draws(seed: int) -> exploit.Random:
    return lambda member: np.random.default_rng([seed, sum(member.encode())])


def test_truncation_takes_the_worst_share_from_the_best() -> None:
    found = scores(a=5.0, b=1.0, c=3.0, d=9.0, e=7.0, f=2.0, g=8.0, h=4.0)
    seen = set()
    for seed in range(40):
        pairs = exploit.truncation(found, 0.25, draws(seed))
        assert list(pairs) == ["b", "f"]
        seen |= set(pairs.values())
    assert seen == {"d", "g"}


def test_a_tournament_is_lost_by_the_worse() -> None:
    found = scores(a=1.0, b=2.0, c=3.0)
    lost: dict[str, set[str]] = {}
    for seed in range(60):
        for member, other in exploit.binary_tournament(found, draws(seed)).items():
            lost.setdefault(member, set()).add(other)
    assert lost == {"a": {"b", "c"}, "b": {"c"}}


def test_one_member_has_nobody_to_copy() -> None:
    assert exploit.truncation(scores(a=1.0), 0.5, draws(0)) == {}
    assert exploit.binary_tournament(scores(a=1.0), draws(0)) == {}


def test_scores_that_overlap_are_not_apart() -> None:
    low, high = Score(1, 1.0, [0.0, 2.0, 0.0, 2.0]), Score(1, 2.0, [1.0, 3.0, 1.0, 3.0])
    assert not exploit.separate(low, high)
    assert exploit.separate(Score(1, 1.0, [0.9, 1.1, 0.9, 1.1]), Score(1, 2.0, [1.9, 2.1, 1.9, 2.1]))


# ---------------------------------------------------------------- the paper's quadratic

BOTH = {"h0": RangeConfig(linear=[0.0, 1.0]), "h1": RangeConfig(linear=[0.0, 1.0])}


def quadratic(seed: int, *, copies: bool, explores: bool) -> float:
    """Figure 2 of the paper: Q = 1.2 - |theta|^2, learnt through a surrogate that sees each coordinate as much as h says."""
    theta = {"a": np.full(2, 0.9), "b": np.full(2, 0.9)}
    values = {"a": {"h0": 1.0, "h1": 0.0}, "b": {"h0": 0.0, "h1": 1.0}}
    random = np.random.default_rng(seed)
    for step in range(1, 201):
        for name in theta:
            theta[name] = theta[name] + 0.01 * -2 * np.array(list(values[name].values())) * theta[name]
        if step % 4:
            continue
        found = {name: Score(step, 1.2 - float((theta[name] ** 2).sum())) for name in theta}
        pairs = exploit.truncation(found, 0.5, lambda _: random) if copies else {}
        for member, origin in pairs.items():
            theta[member] = theta[origin].copy()
        for member in pairs if copies else theta:
            if explores:
                values[member] = space.perturb(BOTH, values[pairs.get(member, member)], 0.1, random)
    return max(1.2 - float((each**2).sum()) for each in theta.values())


@pytest.mark.parametrize(
    ("copies", "explores", "median"),
    [(True, True, 1.199), (False, True, 1.149), (True, False, 1.1715), (False, False, 0.3897)],
    ids=["pbt", "explore only", "copy only", "neither"],
)
def test_the_quadratic_of_the_paper(copies: bool, explores: bool, median: float) -> None:
    found = [quadratic(seed, copies=copies, explores=explores) for seed in range(200)]
    print(f"median {np.median(found):.4f}, least {min(found):.4f}")
    assert np.median(found) == pytest.approx(median, rel=0.01)
