"""Who takes part in a sweep: every combination with every seed, by names that can be folders, with settings that read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.api.population import SweepConfig
from shoal.base.errors import InputError
from shoal.population.folder import PopulationFolder
from shoal.population.settings import as_word, member_experiment
from shoal.population.state import State
from shoal.population.sweep import Sweep, members_of, split_words


def test_every_combination_with_every_seed() -> None:
    config = SweepConfig(grid={"algorithm.lr": [1e-3, 3e-3], "env.num_envs": [4, 8]}, seeds=2)
    found = members_of(config, 5)
    assert len(found) == 8
    assert found["lr-0.001-num_envs-4-seed-5"] == ["algorithm.lr=0.001", "env.num_envs=4", "seed=5"]
    assert list(found)[-1] == "lr-0.003-num_envs-8-seed-6"


def test_without_a_grid_there_are_seeds() -> None:
    assert members_of(SweepConfig(seeds=3), 1) == {f"seed-{n}": [f"seed={n}"] for n in (1, 2, 3)}


def test_names_that_would_be_equal_or_too_long_are_numbers() -> None:
    equal = SweepConfig(grid={"a.lr": [1, 2], "b.lr": [1, 2]})
    assert list(members_of(equal, 1)) == [
        "lr-1-lr-1-seed-1",
        "lr-1-lr-2-seed-1",
        "lr-2-lr-1-seed-1",
        "lr-2-lr-2-seed-1",
    ]
    assert list(members_of(SweepConfig(grid={"env.id": ["a:b", "a/b"]}), 1)) == ["m0", "m1"]
    assert list(members_of(SweepConfig(grid={"env.id": ["x" * 99, "y"]}), 1)) == ["m0", "m1"]


def test_seeds_are_not_of_the_grid() -> None:
    with pytest.raises(InputError, match="--seeds"):
        members_of(SweepConfig(grid={"seed": [1, 2]}), 1)


def test_commas_make_a_grid_but_not_inside_brackets() -> None:
    plain, grid = split_words(
        ["algorithm.lr=1e-3,3e-3", "model.hidden=[8,8],[16]", "stop.steps=100", "env.kwargs={a: 1, b: 2}"]
    )
    assert plain == ["stop.steps=100", "env.kwargs={a: 1, b: 2}"]
    assert grid == {"algorithm.lr": [1e-3, 3e-3], "model.hidden": [[8, 8], [16]]}


@pytest.mark.parametrize(
    "value", [1e-5, 0.1 + 0.2, 3, True, None, "linear", [8, 8], {"start": 1e-3, "end": 0.0}, "1e-3", 1e22]
)
def test_a_word_is_read_back_as_the_value(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "population.yaml"
    PopulationFolder(tmp_path).write_settings({"env": "CartPole-v1", "sweep": {"seeds": 3}})
    member = member_experiment(path, [as_word("algorithm.lr", value)])
    found = member.algorithm.rest["lr"]
    assert (found, type(found)) == (value, type(value))
    assert member.sweep is None


def test_a_new_start_finds_nobody_at_work_and_nobody_paused() -> None:
    state = State()
    for decision in Sweep(SweepConfig(seeds=4), 1).decide(state):
        state.apply(decision)
    for line in (
        {"kind": "started", "member": "seed-1"}, {"kind": "paused", "member": "seed-2", "reason": "by order"},
        {"kind": "failed", "member": "seed-3", "reason": "it broke"}, {"kind": "paused", "reason": "by order"},
    ):  # fmt: skip
        state.apply(line)
    assert state.paused
    assert [member.name for member in state.waiting()] == ["seed-4"]
    state.apply({"kind": "begun", "seconds": 3.0})
    assert not state.paused
    assert [member.name for member in state.waiting()] == ["seed-1", "seed-2", "seed-4"]


def test_a_sweep_that_grew_makes_the_members_that_are_missing() -> None:
    state = State()
    for decision in Sweep(SweepConfig(seeds=2), 1).decide(state):
        state.apply(decision)
    assert [each["member"] for each in Sweep(SweepConfig(seeds=3), 1).decide(state)] == ["seed-3"]
    assert Sweep(SweepConfig(seeds=2), 1).decide(state) == []
