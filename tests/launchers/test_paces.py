"""Policies whose agents act at different paces: each has its own clock, nobody waits for the slowest, and bits stay equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from tests.launchers.processes import nothing_left

UNEQUAL = {
    "env": {"id": "tests.envs.paces:UnequalPoles", "num_envs": 8},
    "agents": {"pole_0": "slow", "pole_1": "quick"},
}
TURNS = {"env": {"id": "tests.envs.paces:UnequalTurns", "num_envs": 8}, "agents": {"rare": "slow", "often": "quick"}}


def trained(tmp_path: Path, trial: str, on: str, game: dict[str, Any], **placement: Any) -> tuple[Checkpoint, Path]:
    tree = {
        "algorithm": {"name": "ppo", "unroll": 8, "epochs": 1, "minibatch": 16}, "model": {"name": "mlp", "hidden": [8]},
        "stop": {"steps": 2000}, "log": {"tensorboard": False}, "name": "paces", **game, "placement": placement,
    }  # fmt: skip
    with nothing_left():
        outcome = shoal.train(Experiment.parse(tree), trial=trial, root=tmp_path, on=on, quiet=True)
    assert outcome.reason == "stop.steps = 2,000 reached"
    return CheckpointStore(outcome.folder / "checkpoints").latest(), outcome.folder


def check_clocks(found: Checkpoint, folder: Path) -> None:
    versions, steps = found.meta["versions"], found.meta["policy_steps"]
    assert versions["quick"] > 1.3 * versions["slow"] > 2, versions
    assert min(steps.values()) >= 2000, "each policy ends by its own clock"
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["update"] for row in rows] == list(range(1, versions["quick"] + 1)), "rows follow the quicker policy"
    last = rows[-1]
    became = sum(last.get(f"rows/{name}", 0) for name in ("trained", "stale", "not_finite", "lost", "surplus"))
    assert last["rows/produced"] == became + last["rows/in_flight"]


@pytest.mark.parametrize("game", [UNEQUAL, TURNS], ids=["poles", "turns"])
@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("actors", [2, 4])
def test_equal_bits_in_one_process_and_in_many(tmp_path: Path, game: dict[str, Any], actors: int, lag: int) -> None:
    placement = {"actors": actors, "max_lag": lag, "exact": True}
    near, folder = trained(tmp_path, "near", "inline", game, **placement)
    check_clocks(near, folder)
    far, folder = trained(tmp_path, "far", "local", game, **placement)
    check_clocks(far, folder)
    assert near.meta["versions"] == far.meta["versions"]
    assert all(torch.equal(near.tensors[name], far.tensors[name]) for name in near.tensors)


@pytest.mark.parametrize("game", [UNEQUAL, TURNS], ids=["poles", "turns"])
def test_replicas_in_step(tmp_path: Path, game: dict[str, Any]) -> None:
    near, _ = trained(tmp_path, "near", "inline", game, trainers=2)
    far, folder = trained(tmp_path, "far", "local", game, trainers=2)
    check_clocks(far, folder)
    assert near.meta["versions"] == far.meta["versions"]
    assert all(torch.equal(near.tensors[name], far.tensors[name]) for name in near.tensors)


@pytest.mark.parametrize("actors", [2, 4])
def test_free_runs_do_not_stop_either(tmp_path: Path, actors: int) -> None:
    found, _ = trained(tmp_path, "free", "local", UNEQUAL, actors=actors, max_lag=1, exact=False)
    assert found.meta["versions"]["quick"] > found.meta["versions"]["slow"] > 1
