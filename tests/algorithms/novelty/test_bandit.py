"""The meta-controller: against slow loops from the papers, returns on their arms, old ones forgotten, less regret than chance."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.algorithms.novelty.bandit import Bandits, ControllerConfig


def make(arms: int = 3, lanes: int = 1, *, seed: int = 0, **settings: Any) -> Bandits:
    return Bandits(ControllerConfig(**settings), arms, np.arange(lanes), seed=seed)


def slow_scores(history: list[tuple[int, float]], arms: int, kind: str, bonus: float) -> list[float | None]:
    """Arm by arm, over the episodes of a window; None: never played."""
    returns = [earned for _, earned in history]
    low, high = min(returns), max(returns)
    scores: list[float | None] = []
    for arm in range(arms):
        own = [(earned - low) / (high - low) if high > low else 0.0 for played, earned in history if played == arm]
        if not own:
            scores.append(None)
            continue
        n, s = len(history), len(own)
        mean = sum(own) / s
        if kind == "ucb":
            width = math.sqrt(2 * math.log(n) / s)
        else:
            variance = sum(x * x for x in own) / s - mean * mean
            width = math.sqrt(math.log(n) / s * min(0.25, variance + math.sqrt(2 * math.log(n) / s)))
        scores.append(mean + bonus * width)
    return scores


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(["ucb", "ucb1-tuned"]),
    bonus=st.sampled_from([0.3, 1.0]),
    window=st.integers(3, 12),
    returns=st.lists(st.floats(-50, 50), min_size=1, max_size=40),
)
def test_choices_are_those_of_the_papers(kind: str, bonus: float, window: int, returns: list[float]) -> None:
    bandits = make(kind=kind, bonus=bonus, window=window)
    history: deque[tuple[int, float]] = deque(maxlen=window)
    for earned in returns:
        arm = int(bandits.choose(np.array([0]))[0])
        if history:
            scores = slow_scores(list(history), 3, kind, bonus)
            best = max((score for score in scores if score is not None), default=0.0)
            chosen = scores[arm]
            assert (chosen is None) if None in scores else (chosen is not None and chosen >= best - 1e-9)
        bandits.reward(np.array([0]), np.array([earned]))
        history.append((arm, earned))


def test_every_arm_is_tried_first() -> None:
    bandits, rows = make(5, lanes=4), np.arange(4)
    played = []
    for _ in range(5):
        arms = bandits.choose(rows)
        played.append(arms)
        bandits.reward(rows, (arms == 0) * 100.0)
    assert np.array_equal(np.sort(np.stack(played), 0), np.repeat(np.arange(5)[:, None], 4, 1))
    assert len({tuple(column) for column in np.stack(played).T}) > 1, "lanes begin with different arms"


def test_a_return_lands_on_the_arm_that_was_played_in_the_lane_that_played_it() -> None:
    bandits, rows = make(3, lanes=2, bonus=0.0), np.arange(2)
    best = np.array([2, 0])
    for _ in range(3):
        arms = bandits.choose(rows)
        for row in (1, 0):  # episodes end one by one, in any order
            bandits.reward(np.array([row]), np.array([float(arms[row] == best[row])]))
    assert bandits.choose(rows).tolist() == best.tolist()
    state = bandits.state_dict()
    for lane in range(2):
        for arm, earned in zip(state["played"][lane, :3], state["earned"][lane, :3], strict=True):
            assert earned == float(arm == best[lane])


def test_old_episodes_leave_the_window() -> None:
    """Arm 1 paid once, long ago; with a short window nobody remembers, with a long one it is still the best."""
    for window, remembered in ((6, False), (100, True)):
        bandits, row = make(2, bonus=0.0, window=window, chance=0.0), np.array([0])
        for number in range(40):
            arm = bandits.choose(row)
            paid = 5.0 if arm[0] == 1 and number < 3 else 0.0
            bandits.reward(row, np.array([paid]))
        state = bandits.state_dict()
        assert (5.0 in state["earned"]) == remembered
        assert (state["played"] >= 0).sum() == min(window, 40)


def test_a_share_of_chance_plays_all_arms_alike() -> None:
    bandits, rows = make(4, lanes=300, bonus=0.0, chance=0.5), np.arange(300)
    counts = np.zeros(4)
    for number in range(24):
        arms = bandits.choose(rows)
        bandits.reward(rows, (arms == 2) * 1.0)
        if number >= 4:
            counts += np.bincount(arms, minlength=4)
    shares = counts / counts.sum()
    assert shares.tolist() == pytest.approx([0.125, 0.125, 0.625, 0.125], abs=0.02)


def regret(bandits: Bandits | None, episodes: int, seed: int) -> float:
    """On a bandit whose best arm moves on every 150 episodes: 0.8 against 0.2, with noise."""
    random, lost, row = np.random.default_rng(seed), 0.0, np.array([0])
    for number in range(episodes):
        best = number // 150 % 4
        arm = int(bandits.choose(row)[0]) if bandits else int(random.integers(4))
        mean = 0.8 if arm == best else 0.2
        lost += 0.8 - mean
        if bandits:
            bandits.reward(row, np.array([float(random.random() < mean)]))
    return lost / episodes


@pytest.mark.parametrize("kind", ["ucb1-tuned", "ucb"])
def test_less_regret_than_chance_where_the_best_arm_changes(kind: str) -> None:
    bonus = {"ucb1-tuned": 1.0, "ucb": 0.5}[kind]
    for seed in range(3):
        chance = regret(None, 1200, seed)
        assert regret(make(4, seed=seed, kind=kind, window=60, bonus=bonus), 1200, seed) < 0.8 * chance


def test_state_goes_on_and_lanes_do_not_depend_on_their_company() -> None:
    whole, rows = make(4, lanes=3, chance=0.3), np.arange(3)
    alone = Bandits(ControllerConfig(chance=0.3), 4, np.array([2]), seed=0)
    copy = make(4, lanes=3, chance=0.3)
    random = np.random.default_rng(1)
    for number in range(30):
        arms = whole.choose(rows)
        assert alone.choose(np.array([0]))[0] == arms[2]
        if number > 15:
            assert copy.choose(rows).tolist() == arms.tolist()
        earned = random.random(3)
        whole.reward(rows, earned)
        alone.reward(np.array([0]), earned[2:])
        copy.load_state_dict(whole.state_dict())
