"""Whoever shows a run that was resumed from an older checkpoint: counters only grow."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.checkpoints.store import CheckpointStore
from tests.monitoring.test_sinks import curves

COUNTERS = ("step", "update", "rollout/episodes", "time/elapsed", "rows/trained")


def experiment(updates: int) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": "CartPole-v1", "num_envs": 8},
            "algorithm": {"name": "a2c", "unroll": 16},
            "model": {"name": "mlp", "hidden": [16]},
            "stop": {"updates": updates},
            "checkpoint": {"every": "3 updates", "keep": 9},
            "placement": {"actors": 2},
            "name": "base",
        }
    )


def shown(lines: str) -> list[int]:
    """Steps, as the terminal had them."""
    return [int(line.split(" steps |")[0].replace(",", "")) for line in lines.splitlines() if " steps |" in line]


def rising(numbers: list[Any]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


def test_counters_only_grow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It died after update 8, so rows 7 and 8 are written twice: they count as the second life has them."""
    folder = shoal.train(experiment(8), root=tmp_path, trial="a", on="local").folder
    store = CheckpointStore(folder / "checkpoints", keep=9)
    shutil.rmtree(store.path(8))
    saved = store.latest()
    assert saved.version == 6
    first = shown(capsys.readouterr().out)
    shoal.resume("base", "a", overrides=["stop.updates=12"], root=tmp_path, on="local")
    second = shown(capsys.readouterr().out)

    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["update"] for row in rows] == list(range(1, 13))
    for name in COUNTERS:
        assert rising([row[name] for row in rows]), name

    drawn = curves(folder / "tensorboard")
    assert len(list((folder / "tensorboard").iterdir())) == 2
    for tag, points in drawn.items():
        assert rising([step for step, _ in points]), tag
    assert [step for step, _ in drawn["rollout/episodes"]] == [row["step"] for row in rows]
    assert [value for _, value in drawn["rollout/episodes"]] == [row["rollout/episodes"] for row in rows]

    assert rising(first)
    assert rising(second)
    assert first[-1] > saved.meta["steps"] < second[0]
    assert second[-1] == rows[-1]["step"]
