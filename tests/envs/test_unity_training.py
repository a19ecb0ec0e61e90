"""PPO, SAC and self-play through scripted Unity players, to a known optimum; `shoal plan` and `check-env` on builds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from outside_games import executable
from unity_runs import RUNS, mistakes

import shoal
from shoal.api.experiment import Experiment
from shoal.base.descendants import below, lives
from shoal.cli import main
from shoal.program.expand import expand
from shoal.program.report import plan_of

pytest.importorskip("grpc")


@pytest.fixture
def build(tmp_path: Path) -> Path:
    return executable(tmp_path, "unity_player.py", "Game.x86_64")


def experiment(build: Path, args: str, *, copies: int, **sections: Any) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": f"unity:{build}", "num_envs": copies, "kwargs": {"args": args.split()}},
            "algorithm": {"name": "ppo", "lr": 0.01, "unroll": 20, "minibatch": 80, "epochs": 4},
            "model": {"name": "mlp", "hidden": [32]},
        }
        | sections
    )


@pytest.mark.parametrize(("launcher", "actors"), [("inline", 1), ("local", 2)])
def test_ppo_reaches_the_optimum(tmp_path: Path, build: Path, launcher: str, actors: int) -> None:
    """Of 5: a random player has 1.67."""
    asked_for = experiment(
        build, "--agents 8", copies=8 * actors, placement={"actors": actors}, stop={"return": 4.8, "steps": 60_000}
    )
    outcome = shoal.train(asked_for, on=launcher, root=tmp_path, quiet=True)
    rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    assert max(row.get("rollout/ep_rew_mean", 0.0) for row in rows) > 4.5
    assert outcome.steps < 60_000, "stop.return was reached"


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize(("launcher", "actors"), [("inline", 1), ("local", 2)])
def test_the_known_answer_is_found(tmp_path: Path, build: Path, kind: str, launcher: str, actors: int) -> None:
    settings, learner = RUNS[kind]
    outcome = shoal.train(Experiment.parse(settings(build, actors)), on=launcher, root=tmp_path, quiet=True)
    off = mistakes(outcome.folder, learner)
    print(f"{kind} {launcher}: off by {[round(each, 3) for each in off]} after {outcome.steps} steps")
    assert max(off) < 0.1


@pytest.mark.slow
def test_eight_builds_in_one_run(tmp_path: Path, build: Path) -> None:
    """Each prints into a log of its own, and none outlives the run."""
    before = below(os.getpid())
    asked_for = experiment(build, "", copies=8, placement={"actors": 2}, stop={"updates": 2})
    kwargs = {**asked_for.env.kwargs, "log_folder": str(tmp_path / "logs")}
    asked_for = asked_for.model_copy(update={"env": asked_for.env.model_copy(update={"kwargs": kwargs})})
    assert shoal.train(asked_for, on="local", root=tmp_path, quiet=True).version == 2
    names = {log.name.rsplit("-", 2)[0] for log in (tmp_path / "logs").iterdir()}
    assert names == {f"Game-{number}" for number in range(8)}
    assert not any(lives(player) for player in below(os.getpid()) - before)


def test_past_opponents_play_the_other_team(tmp_path: Path, build: Path) -> None:
    args = "--behaviours Duel?team=0 Duel?team=1"
    asked_for = experiment(
        build,
        args,
        copies=2,
        agents={"Duel_team0_*": "learner", "Duel_team1_*": "rival"},
        deal="shuffled",
        policies={"learner": {}, "rival": {"past": {"of": "learner", "every": 1}}},
        stop={"updates": 3},
    )
    assert shoal.train(asked_for, on="inline", root=tmp_path, quiet=True).version == 3


def test_qmix_learns_from_a_group_as_a_team(tmp_path: Path, build: Path) -> None:
    args = "--agents 2 --groups --grouped-reward"
    asked_for = experiment(
        build,
        args,
        copies=2,
        algorithm={"name": "qmix", "unroll": 8, "batch": 64, "warmup": 100, "reward": "mean"},
        stop={"updates": 3},
    )
    assert shoal.train(asked_for, on="inline", root=tmp_path, quiet=True).version == 3


def test_plan_counts_builds_and_their_threads(build: Path) -> None:
    plan = plan_of(expand(experiment(build, "--agents 4", copies=16, placement={"actors": 2}, stop={"updates": 1})))
    assert plan["games"]["count"] == 4
    assert plan["games"]["threads"] >= 8
    assert plan["games"]["memory_bytes"] > 4 * 10_000_000


def test_check_env_of_a_build(build: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["shoal", "check-env", f"unity:{build}", "kwargs.args=[--agents,'3']"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert end.value.code in (0, None), printed
    assert "keeps all 18 checks" in printed.out
