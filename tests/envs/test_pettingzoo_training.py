"""Short runs on PettingZoo games: several policies, turns, masks, death; numbers stay finite, and launchers agree."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.checkpoints.store import CheckpointStore


def experiment(env_id: str, **algorithm: Any) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": env_id, "num_envs": 4},
            "algorithm": {"name": "ppo", "unroll": 24, "minibatch": 32, **algorithm},
            "model": {"name": "mlp", "hidden": [16]},
            "stop": {"updates": 6},
            "placement": {"actors": 2},
        }
    )


def rows_of(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


@pytest.mark.parametrize(
    ("env_id", "policies"),
    [
        ("mpe2/simple_speaker_listener_v4", ["speaker/", "listener/"]),
        ("classic/tictactoe_v3", [""]),
        ("zoo_worlds:make_duel", [""]),
    ],
)
def test_ppo_learns_with_finite_losses(tmp_path: Path, env_id: str, policies: list[str]) -> None:
    outcome = shoal.train(experiment(env_id), root=tmp_path, quiet=True)
    rows = rows_of(outcome.folder)
    assert outcome.version == 6
    for policy in policies:
        losses = [row[f"train/{policy}loss"] for row in rows if f"train/{policy}loss" in row]
        assert len(losses) >= 6
        assert all(math.isfinite(loss) for loss in losses)
        assert len(set(losses)) > 3
    assert any("rollout/ep_rew_mean" in row for row in rows)
    assert {name.split("/")[0] for name in weights(outcome.folder)} >= {policy.strip("/") for policy in policies} - {""}


def test_an_agent_never_learns_from_a_forbidden_choice(tmp_path: Path) -> None:
    """Tic-tac-toe ends with -1 for whoever plays a taken square; masked, the returns of the two always sum to 0."""
    outcome = shoal.train(experiment("classic/tictactoe_v3"), root=tmp_path, quiet=True)
    means = [row["rollout/ep_rew_mean"] for row in rows_of(outcome.folder) if "rollout/ep_rew_mean" in row]
    assert means
    assert all(mean == 0.0 for mean in means)


@pytest.mark.parametrize("env_id", ["mpe2/simple_speaker_listener_v4", "classic/tictactoe_v3"])
def test_local_and_inline_end_with_equal_weights(tmp_path: Path, env_id: str) -> None:
    tree = experiment(env_id)
    inline = shoal.train(tree, root=tmp_path / "inline", quiet=True)
    local = shoal.train(tree, root=tmp_path / "local", on="local", quiet=True)
    one, two = weights(inline.folder), weights(local.folder)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert inline.steps == local.steps
