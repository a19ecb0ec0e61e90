"""The recipes `pong-dqn` and `pong-r2d2`, made small: images kept once, drawn by priority, through convolutions and memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment, load_experiment
from shoal.program.expand import expand
from shoal.program.report import plan_of
from shoal.recipes import find
from shoal.rollout.plans import Plans

BUDGET = 2e9
"""Bytes that a recipe may keep for replay."""
SMALL = ["env.num_envs=2", "algorithm.capacity=96", "algorithm.warmup=40", "algorithm.updates=2", "stop.updates=6"]
RECIPES = {
    "pong-dqn": [*SMALL, "algorithm.batch=16", "model.channels=[4,4,4]", "model.hidden=[16]"],
    "pong-r2d2": [
        *SMALL, "algorithm.unroll=8", "algorithm.burn_in=4", "algorithm.batch=16", "model.hidden=[16]",
        "model.encoder={name: nature, channels: [4, 4, 4], hidden: [16]}",
    ],
}  # fmt: skip
SHAPES = {"inline": ("inline", []), "buffer worker": ("local", ["placement.buffers=1"])}
"""Launcher, overrides."""


@pytest.fixture(autouse=True)
def _atari() -> None:
    pytest.importorskip("ale_py", reason='pong needs its extra: pip install "shoal[atari]"')


def rows_of(experiment: Experiment, root: Path, on: str) -> list[dict[str, Any]]:
    """Every row of metrics of a run."""
    outcome = shoal.train(experiment, root=root, on=on, quiet=True)
    return [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_recipe_trains(recipe: str, shape: str, tmp_path: Path) -> None:
    on, placement = SHAPES[shape]
    rows = rows_of(load_experiment(find(recipe), [*RECIPES[recipe], *placement]), tmp_path, on)
    learned = [row for row in rows if row.get("train/updates_per_row")]
    assert len(learned) >= 3
    assert all(row["train/grad_norm"] > 0 for row in learned)
    assert all(0 < row["train/weight_mean"] <= 1 for row in learned)
    assert learned[0]["train/loss"] != learned[-1]["train/loss"]
    assert learned[-1]["replay/held"] <= 96


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_kept_stays_within_its_budget(recipe: str) -> None:
    program = expand(load_experiment(find(recipe), []))
    (policy,) = plan_of(program)["policies"].values()
    replay = Plans(program)["agent"].algorithm.needs.replay
    assert replay is not None
    assert policy["bytes_of_replay"] <= BUDGET
    assert policy["bytes_of_replay"] < 2 * 84 * 84 * replay.capacity  # a stack of four would take twice that
