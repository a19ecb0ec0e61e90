"""Two runs, number by number, and what is different around them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from shoal.runs.provenance import collect
from shoal.runs.reproduction import changes, clocked, first_difference

ROWS = [
    {"step": 10, "update": 1, "train/loss": 0.1 + 0.2, "time/fps": 5.0, "rows/in_flight": 3},
    {"step": 20, "update": 2, "train/loss": None, "rollout/ep_rew_mean": 7.0},
]


def changed(row: int, **values: Any) -> list[dict[str, Any]]:
    rows = copy.deepcopy(ROWS)
    rows[row] |= {key.replace("__", "/"): value for key, value in values.items()}
    return rows


def test_equal_rows() -> None:
    assert first_difference(ROWS, copy.deepcopy(ROWS)) is None
    assert first_difference(ROWS, changed(0, time__fps=6.0, rows__in_flight=0, time__new=1.0)) is None
    assert first_difference(ROWS[:1], ROWS) is None, "more rows do no harm"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (changed(0, train__loss=0.3), "row 1 (update 1), train/loss: 0.30000000000000004 then, 0.3 now"),
        (changed(1, train__loss=0.0), "row 2 (update 2), train/loss: None then, 0.0 now"),
        (changed(1, eval__mean_reward=1.0), "row 2 (update 2), eval/mean_reward: absent then, 1.0 now"),
        (changed(0, update=3), "row 1 (update 1), update: 1 then, 3 now"),
        (ROWS[:1], "row 2 (update 2), the whole row: there then, absent now"),
    ],
)
def test_the_first_difference(now: list[dict[str, Any]], said: str) -> None:
    assert str(first_difference(ROWS, now)) == said


def test_columns_of_workers_that_are_not_in_step() -> None:
    other, score = changed(1, inference__batch=8.0), changed(1, eval__mean_reward=8.0)
    for policy_workers in (False, True):
        but = clocked(policy_workers=policy_workers, evaluated=not policy_workers)
        assert (first_difference(ROWS, other, but) is None) is policy_workers
        assert (first_difference(ROWS, score, but) is None) is not policy_workers
        assert first_difference(ROWS, changed(1, rollout__ep_rew_mean=8.0), but) is not None
        assert first_difference(ROWS, changed(0, train__loss=1.0), but) is not None


def test_nothing_has_changed() -> None:
    record = collect(["shoal"], 1, "local")
    assert changes(record, copy.deepcopy(record)) == []


def test_what_has_changed_is_named() -> None:
    now = collect(["shoal"], 1, "local")
    now["git"] = {"commit": "b" * 40, "diff": ""}
    then = copy.deepcopy(now)
    then["versions"]["torch"] = then["packages"]["torch"] = "1.0"
    del then["packages"]["pydantic"]
    then["git"]["commit"] = "a" * 40
    then["machine"] |= {"cpu_model": "Abacus", "memory_bytes": 1}
    said = changes(then, now)
    assert said[0] == f"torch: 1.0 then, {now['versions']['torch']} now"
    assert said[1] == f"pydantic: none then, {now['packages']['pydantic']} now"
    assert said[2] == f"the code: git commit {'a' * 12} then, {'b' * 12} now"
    assert said[3].startswith("machine, cpu_model: Abacus then, ")
    assert len(said) == 4


def test_uncommitted_changes_many_packages_and_old_records() -> None:
    now = {**collect(["shoal"], 1, "local"), "git": {"commit": "a", "diff": "+x"}, "shoal_git": None}
    then = {**copy.deepcopy(now), "git": {"commit": "a", "diff": "+y"}, "packages": {}}
    said = changes(then, now)
    assert said[-1] == "the code: the changes that are not committed are others"
    assert "more packages have other versions" in said[-2]
    assert len(said) == 10
    old = {key: value for key, value in now.items() if key not in ("packages", "shoal_git")}
    assert changes(old, now) == [], "what a record does not tell is no change"
    assert changes({**now, "git": None}, now) == ["the code: in a git repository only now"]
