"""`shoal/deep-sea`: conformance, the one path that pays, what the others cost, and how rarely chance finds it."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.envs.native.deep_sea import DeepSea
from shoal.testing.env import check_env


def dive(env: DeepSea, rights: list[bool]) -> tuple[float, list[tuple[int, int]]]:
    """One episode, in words of the environment: right or left. -> return, cells that were seen."""
    depth = len(rights)
    step = env.reset(0)
    total, cells = 0.0, []
    for right in rights:
        row, column = divmod(int(step.turns["agent"].observation[0, 0].argmax()), depth)
        assert step.turns["agent"].observation[0, 0].sum() == 1
        cells.append((row, column))
        action = env.right[row, column] if right else 1 - env.right[row, column]
        step = env.step({"agent": np.array([[action]])})
        total += float(step.turns["agent"].reward[0, 0])
    assert step.turns["agent"].terminated.all()
    assert [episode.length for episode in step.episodes] == [depth]
    assert step.episodes[0].returns["agent"][0] == pytest.approx(total, abs=1e-6)
    return total, cells


def test_it_conforms() -> None:
    checks = check_env(lambda copies: make_env(EnvConfig(id="shoal/deep-sea", kwargs={"depth": 7}), copies), steps=60)
    assert [check for check in checks if not check.passed] == []


def test_always_right_finds_the_treasure() -> None:
    total, cells = dive(DeepSea(1, depth=6), [True] * 6)
    assert total == pytest.approx(0.99)
    assert cells == [(i, i) for i in range(6)]


def test_one_step_to_the_left_and_it_is_gone() -> None:
    for wrong in range(6):
        total, _ = dive(DeepSea(1, depth=6), [place != wrong for place in range(6)])
        assert total == pytest.approx(-0.01 * 5 / 6)
    total, cells = dive(DeepSea(1, depth=6), [False] * 6)
    assert (total, cells[-1]) == (0.0, (5, 0))


def test_the_meaning_of_actions_is_drawn_by_its_seed_for_all_copies_alike() -> None:
    one, same, other = DeepSea(4, depth=9), DeepSea(2, first_slot=50, depth=9), DeepSea(1, depth=9, mapping_seed=1)
    assert np.array_equal(one.right, same.right)
    assert not np.array_equal(one.right, other.right)
    assert 0.3 < one.right.mean() < 0.7
    for column in one.right.T:
        assert len(set(column.tolist())) == 2, "no column has one meaning throughout"


def test_chance_finds_it_once_in_two_to_the_depth() -> None:
    env, random = DeepSea(4096, depth=6), np.random.default_rng(0)
    env.reset(0)
    for _ in range(6):
        step = env.step({"agent": random.integers(2, size=(4096, 1))})
    found = sum(episode.returns["agent"][0] > 0.5 for episode in step.episodes)
    assert found / 4096 == pytest.approx(2**-6, abs=0.006)
