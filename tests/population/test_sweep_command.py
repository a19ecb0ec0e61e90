"""`shoal sweep` as people type it: table, figure, files; status and orders; W&B."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import shoal
from tests.population.small import rows

SMALL = [
    "env.num_envs=4",
    "algorithm.unroll=16",
    "algorithm.minibatch=32",
    "model.hidden=[8]",
    "stop.steps=512",
    "stop.return=null",
]


def test_a_sweep_ends_with_a_table_a_figure_and_files(in_tmp: Path) -> None:
    pytest.importorskip("matplotlib", reason="`shoal[plot]` is not installed")
    done = shoal("sweep", "cartpole", "algorithm.lr=1e-3,4e-3", "--seeds", "2", "--name", "rates", *SMALL, cwd=in_tmp)
    assert done.returncode == 0, done.stderr
    assert "all 4 runs have ended: runs/rates" in done.stdout
    assert "is better than" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("lr=")][:2] == [
        "lr=0.001",
        "lr=0.004",
    ]
    folder = in_tmp / "runs/rates"
    assert (folder / "sweep.png").stat().st_size > 10_000
    table = json.loads((folder / "sweep.json").read_text())
    assert [record["trials"] for record in table["runs"]] == [2, 2]
    (chance,) = table["improvement"]
    assert 0.5 <= chance["probability"] <= 1
    found = json.loads((folder / "marl-eval.json").read_text())["gymnasium"]["CartPole-v1"]["lr=0.001"]
    written = rows(folder)["lr-0.001-seed-1"]
    assert list(found) == ["seed_1", "seed_2"]
    steps = [found["seed_1"][f"step_{i}"]["step_count"] for i in range(3)]
    assert steps == [row["step"] for row in written if "rollout/ep_rew_mean" in row][:3]
    shown = shoal("status", "rates", cwd=in_tmp)
    assert "rates is not running: all 4 runs have ended" in shown.stdout
    one = shoal("status", "rates/lr-0.001-seed-1", cwd=in_tmp)
    assert "stop.steps = 512 reached" in one.stdout
    again = shoal("sweep", "cartpole", "algorithm.lr=1e-3,4e-3", "--name", "rates", cwd=in_tmp)
    assert again.returncode == 2
    assert "--resume" in again.stderr


def test_a_recipe_with_a_grid_is_not_one_run(in_tmp: Path) -> None:
    done = shoal("train", "cartpole-sweep", cwd=in_tmp)
    assert done.returncode == 2
    assert "shoal sweep cartpole-sweep" in done.stderr
    assert not (in_tmp / "runs").exists()


def test_runs_are_one_group_in_wandb(in_tmp: Path) -> None:
    pytest.importorskip("wandb", reason="`shoal[wandb]` is not installed")
    from tests.monitoring.wandb_files import described, parts
    from tests.monitoring.wandb_files import rows as shown_rows

    done = shoal("sweep", "cartpole", "--seeds", "2", "--name", "pond", "--wandb", "offline", *SMALL, cwd=in_tmp)
    assert done.returncode == 0, done.stderr
    for seed in (1, 2):
        run = in_tmp / f"runs/pond/seed-{seed}"
        (file,) = parts(run)
        about = described(file)
        assert (about.run_group, about.display_name, about.job_type) == ("pond", f"seed-{seed}", "member")
        assert len(shown_rows(file)) == len((run / "metrics.jsonl").read_text().splitlines())
