"""Exact runs of several processes write equal rows each time, whoever speaks first, and those of one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from tests.launchers.processes import nothing_left

TIMED = ("time/", "rows/", "inference/")
"""Columns that tell of a moment."""
CURIOUS = {
    "env": {"id": "shoal/deep-sea", "num_envs": 8, "kwargs": {"depth": 6}},
    "algorithm": {"name": "dqn", "unroll": 16, "batch": 32, "warmup": 100, "updates": 2, "novelty": True},
}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 96, "minibatch": 64},
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": 6},
        "log": {"tensorboard": False},
        "name": "rows",
    }
    return Experiment.parse({**tree, **sections})


def rows(root: Path, tree: Experiment, on: str) -> list[dict[str, Any]]:
    folder = shoal.train(tree, root=root, on=on, quiet=True).folder
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.startswith(TIMED)} for row in lines]


@pytest.mark.parametrize(
    "sections",
    [
        {"placement": {"actors": 2}},
        pytest.param({"placement": {"actors": 2, "ring": 2, "max_lag": 1, "exact": True}}, marks=pytest.mark.slow),
        {"placement": {"trainers": 2, "actors": 4, "max_lag": 1, "exact": True}},
        pytest.param({"placement": {"actors": 2}, **CURIOUS}, marks=pytest.mark.slow),
        pytest.param(
            {"placement": {"actors": 2}, "env": {"id": "mpe2/simple_speaker_listener_v4", "num_envs": 4,
                                                 "kwargs": {"max_cycles": 7}},
             "agents": {"speaker_*": "talker", "listener_*": "mover"}, "policies": {"talker": {}, "mover": {}}},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["actors", "lag", "trainers", "explorers", "policies"],
)  # fmt: skip
def test_rows_do_not_depend_on_time(tmp_path: Path, sections: dict[str, Any]) -> None:
    tree = experiment(**sections)
    first = rows(tmp_path / "first", tree, "local")
    assert len(first) == 6
    assert first[-1]["rollout/episodes"] > 100, "more than the window holds"
    for on in ("local", "inline"):
        assert rows(tmp_path / on, tree, on) == first, on
