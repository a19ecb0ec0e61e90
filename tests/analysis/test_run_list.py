"""The list of runs: what a record says, and which words choose which runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.analysis.run_list import list_runs
from shoal.base.errors import InputError
from tests.monitoring.written import write_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    old = write_run(tmp_path, "cartpole/old", [9.0, 30.5, 20.0], algorithm={"name": "ppo", "lr": 0.1}, seed=3)
    old.folder.event("stop", reason="stop.steps = 30 reached", steps=30, update=3, elapsed=1.0)
    os.utime(old.folder.path, (0, 0))
    for path in (old.folder.config, old.folder.metrics):
        os.utime(path, (0, 0))
    left = write_run(tmp_path, "cartpole/left", [1.0], algorithm={"name": "ppo", "lr": 0.001})
    left.folder.event("stop", reason="interrupted by SIGINT", steps=10, update=1, elapsed=1.0)
    policies = {"a": {"algorithm": {"name": "ppo"}}, "b": {"algorithm": {"name": "dqn"}}, "c": {"play": "random"}}
    write_run(tmp_path, "tag/new", [], policies=policies, env={"id": "shoal/tag"})
    (tmp_path / "cartpole" / "half-made").mkdir()
    return tmp_path


def names(root: Path, *words: str) -> list[str]:
    return [record["run"] for record in list_runs(list(words), root)]


def test_a_record_of_each_the_newest_first(root: Path) -> None:
    *_, old = records = list_runs([], root)
    assert {record["run"] for record in records} == {"cartpole/old", "cartpole/left", "tag/new"}
    assert old.pop("age") > 1e9
    assert old == {
        "run": "cartpole/old", "name": "cartpole", "trial": "old", "algorithm": "ppo", "env": "CartPole-v1", "seed": 3,
        "state": "finished", "steps": 30, "best": 30.5, "last": 20.0, "score": None,
    }  # fmt: skip
    states = {record["run"]: (record["state"], record["algorithm"], record["best"]) for record in records}
    assert states["cartpole/left"] == ("interrupted", "ppo", 1.0)
    assert states["tag/new"] == ("crashed", "ppo, dqn", None)


@pytest.mark.parametrize(
    ("words", "fitting"),
    [
        (["algorithm=ppo", "state=finished", "name~cart"], {"cartpole/old"}),
        (["cart"], {"cartpole/old", "cartpole/left"}),
        (["algorithm~dqn"], {"tag/new"}),
        (["steps>10"], {"cartpole/old"}),
        (["steps<11"], {"cartpole/left", "tag/new"}),
        (["algorithm.lr=1e-3"], {"cartpole/left"}),
        (["best>1000"], set()),
    ],
)
def test_words(root: Path, words: list[str], fitting: set[str]) -> None:
    assert set(names(root, *words)) == fitting


def test_wrong_words(root: Path) -> None:
    with pytest.raises(InputError, match=r"stat=finished: no run has 'stat'; did you mean 'state'\?"):
        list_runs(["stat=finished"], root)
    with pytest.raises(InputError, match="'many' is no number"):
        list_runs(["steps>many"], root)
    assert list_runs(["anything=1"], root / "empty") == []
