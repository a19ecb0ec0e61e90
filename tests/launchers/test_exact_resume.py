"""A run that is cut in two and resumed is the run that was not, bit for bit."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import ShoalError
from shoal.checkpoints.store import CheckpointStore

RUNS: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm": {"name": "ppo", "unroll": 32}, "model": {"name": "mlp", "hidden": [16]}},
    "recurrent": {
        "env": {"id": "CartPole-v1", "num_envs": 8, "wrappers": ["shoal.envs.partial:HideVelocity"]},
        "algorithm": {"name": "ppo", "unroll": 32},
        "model": {"name": "gru", "hidden": [16]},
    },
    "dqn": {
        "algorithm": {
            "name": "dqn", "unroll": 4, "n_step": 3, "batch": 32, "warmup": 200, "prioritised": True, "capacity": 800,
            "target_every": 7, "updates": 2,
        },
        "model": {"name": "mlp", "hidden": [16]},
    },
    "r2d2": {
        "algorithm": {
            "name": "dqn", "unroll": 4, "burn_in": 2, "batch": 32, "warmup": 100, "capacity": 800, "updates": 2,
            "epsilon": {"base": 0.4, "alpha": 3},
        },
        "model": {"name": "gru", "hidden": [16]},
    },
    "curious": {
        "env": {"id": "shoal/deep-sea", "num_envs": 8, "kwargs": {"depth": 6}},
        "algorithm": {"name": "dqn", "unroll": 4, "batch": 32, "warmup": 100, "updates": 2, "novelty": True},
        "model": {"name": "mlp", "hidden": [16]},
    },
    "forces": {
        "env": {"id": "Pendulum-v1", "num_envs": 4},
        "algorithm": {"name": "sac", "unroll": 2, "batch": 32, "warmup": 100, "capacity": 400, "updates": 2},
        "model": {"name": "mlp", "hidden": [16]},
    },
    "turns": {
        "env": {"id": "classic/tictactoe_v3", "num_envs": 4},
        "algorithm": {"name": "a2c", "unroll": 8},
        "model": {"name": "mlp", "hidden": [16]},
    },
    "dealt": {
        "env": {"id": "shoal/multi-cartpole", "num_envs": 4},
        "algorithm": {"name": "a2c", "unroll": 8},
        "model": {"name": "mlp", "hidden": [16]},
    },
    "wrapped": {
        "env": {
            "id": "shoal/multi-cartpole", "num_envs": 4,
            "wrappers": [{"sticky": 0.25}, {"time_limit": 20}, {"frame_stack": 3}, "normalise", {"reward_scale": 0.5}],
        },
        "algorithm": {"name": "a2c", "unroll": 8},
        "model": {"name": "mlp", "hidden": [16]},
    },
    "wrapped games": {
        "env": {"id": "classic/tictactoe_v3", "num_envs": 4, "wrappers": [{"sticky": 0.25}, "flatten", {"frame_stack": 2}]},
        "algorithm": {"name": "a2c", "unroll": 8},
        "model": {"name": "mlp", "hidden": [16]},
    },
    "team": {
        "env": {"id": "mpe2/simple_spread_v3", "num_envs": 4, "kwargs": {"N": 2, "max_cycles": 12}},
        "algorithm": {"name": "qmix", "unroll": 4, "batch": 32, "warmup": 100, "capacity": 400, "updates": 2},
        "model": {"name": "gru", "hidden": [16]},
    },
}  # fmt: skip
UPDATES = {"dqn": 40, "r2d2": 30, "curious": 30, "forces": 30, "team": 30}


def experiment(kind: str, updates: int, **placement: Any) -> Experiment:
    sections = {"env": {"id": "CartPole-v1", "num_envs": 8}, **RUNS[kind]}
    rest = {"stop": {"updates": updates}, "log": {"tensorboard": False}, "name": "cut", "placement": placement}
    return Experiment.parse({**sections, **rest})


def numbers(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]


def notes(folder: Path) -> str:
    return (folder / "events.jsonl").read_text()


def cut_and_whole(tmp_path: Path, kind: str, cuts: list[int], on: str, **placement: Any) -> tuple[Path, list[Path]]:
    """The folder of a run that was left alone, and those of runs that were cut after so many updates and resumed."""
    updates = UPDATES.get(kind, 10)
    shoal.train(experiment(kind, updates, **placement), root=tmp_path, trial="whole", on=on, quiet=True)
    for cut in cuts:
        shoal.train(experiment(kind, cut, **placement), root=tmp_path, trial=f"cut-{cut}", on=on, quiet=True)
        shoal.resume("cut", f"cut-{cut}", overrides=[f"stop.updates={updates}"], root=tmp_path, on=on, quiet=True)
    return tmp_path / "cut" / "whole", [tmp_path / "cut" / f"cut-{cut}" for cut in cuts]


def check_equal_weights(whole: Path, cut: Path) -> None:
    one, other = (CheckpointStore(folder / "checkpoints").latest() for folder in (whole, cut))
    assert one.version == other.version
    assert one.tensors.keys() == other.tensors.keys()
    unequal = [name for name, tensor in one.tensors.items() if not torch.equal(tensor, other.tensors[name])]
    assert not unequal, f"{cut.name}: {unequal}"
    assert "begin anew" not in notes(cut)


QUICK = ("ppo", "recurrent", "dqn", "turns", "team", "wrapped")


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in RUNS]
)
def test_inline(tmp_path: Path, kind: str) -> None:
    updates = UPDATES.get(kind, 10)
    whole, cuts = cut_and_whole(tmp_path, kind, [random.Random(kind).randrange(1, updates)], "inline")
    for cut in cuts:
        check_equal_weights(whole, cut)
        if kind != "curious":  # an explorer's numbers of the row under way are not kept
            assert numbers(cut) == numbers(whole)


def resumed_from(whole: Path, version: int, trial: str, on: str) -> Path:
    """A copy of a run, resumed from one of its checkpoints as if it had been killed soon after."""
    copy = whole.with_name(trial)
    shutil.copytree(whole, copy, ignore=shutil.ignore_patterns(".lock", "control.sock"))
    for path in (copy / "checkpoints").iterdir():
        if path.name.isdecimal() and int(path.name) > version:
            shutil.rmtree(path)
    shoal.resume("cut", trial, root=whole.parent.parent, on=on, quiet=True)
    return copy


def check_periodic(tmp_path: Path, kind: str, points: int, on: str, **placement: Any) -> None:
    updates = 3 * UPDATES.get(kind, 20)
    saving = experiment(kind, updates, **placement)
    often = saving.checkpoint.model_copy(update={"every": "1 updates", "keep": updates})
    whole = shoal.train(
        saving.model_copy(update={"checkpoint": often}), root=tmp_path, trial="whole", on=on, quiet=True
    ).folder
    for version in sorted(random.Random(7).sample(range(1, updates), points)):
        cut = resumed_from(whole, version, f"from-{version}", on)
        check_equal_weights(whole, cut)
        if on == "inline":
            assert numbers(cut) == numbers(whole)
        shutil.rmtree(cut)


@pytest.mark.slow
def test_periodic_checkpoints(tmp_path: Path) -> None:
    check_periodic(tmp_path, "recurrent", 2, "inline")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["ppo", "recurrent", "dqn"])
def test_fifty_random_points(tmp_path: Path, kind: str) -> None:
    check_periodic(tmp_path, kind, 50, "inline")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["ppo", "recurrent", "dqn"])
def test_random_points_in_processes(tmp_path: Path, kind: str) -> None:
    check_periodic(tmp_path, kind, 10, "local", actors=2)


@pytest.mark.parametrize(
    ("kind", "placement"),
    [
        ("ppo", {"actors": 2}),
        ("ppo", {"actors": 2, "ring": 2, "max_lag": 1, "exact": True}),
        pytest.param("recurrent", {"actors": 1, "inference": "worker"}, marks=pytest.mark.slow),
        pytest.param("dqn", {"actors": 2}, marks=pytest.mark.slow),
    ],
)
def test_processes(tmp_path: Path, kind: str, placement: dict[str, Any]) -> None:
    whole, (cut,) = cut_and_whole(tmp_path, kind, [UPDATES.get(kind, 10) // 2], "local", **placement)
    check_equal_weights(whole, cut)
    one, other = (
        [{name: row[name] for name in row if not name.startswith(("rows/", "inference/"))} for row in numbers(folder)]
        for folder in (whole, cut)
    )
    assert one == other


def test_lag_in_one_process(tmp_path: Path) -> None:
    whole, cuts = cut_and_whole(tmp_path, "ppo", [1, 5], "inline", max_lag=2)
    for cut in cuts:
        check_equal_weights(whole, cut)


@pytest.mark.slow
def test_rows_are_counted_on(tmp_path: Path) -> None:
    _, (cut,) = cut_and_whole(tmp_path, "dqn", [25], "local", actors=2, max_lag=1)
    rows = numbers(cut)
    for name in ("step", "update", "rollout/episodes", "rows/produced", "rows/inserted", "rows/evicted"):
        counts = [row[name] for row in rows]
        assert counts == sorted(counts), name
        assert counts[0] < counts[-1], name
    last = rows[-1]
    became = sum(last[f"rows/{name}"] for name in ("trained", "inserted", "stale", "not_finite", "lost", "in_flight"))
    assert last["rows/produced"] == became
    assert last["rows/inserted"] == last["rows/held"] + last["rows/evicted"] + last["rows/forgotten"]


def test_other_workers_go_on_and_say_what_begins_anew(tmp_path: Path) -> None:
    shoal.train(experiment("dqn", 20, actors=1), root=tmp_path, trial="a", on="local", quiet=True)
    overrides = ["stop.updates=24", "placement.actors=2"]
    again = shoal.resume("cut", "a", overrides=overrides, root=tmp_path, on="local", quiet=True)
    assert again.version == 24
    said = notes(again.folder)
    assert "open episodes begin anew" in said
    assert "replay starts empty" in said


def test_replay_is_left_out_on_demand(tmp_path: Path) -> None:
    without = experiment("dqn", 20)
    without = without.model_copy(update={"checkpoint": without.checkpoint.model_copy(update={"replay": False})})
    shoal.train(without, root=tmp_path, trial="a", on="inline", quiet=True)
    (files,) = [path for path in (tmp_path / "cut" / "a" / "checkpoints").iterdir() if path.name.isdecimal()]
    assert not list(files.glob("trainer-*"))
    again = shoal.resume("cut", "a", overrides=["stop.updates=24"], root=tmp_path, on="inline", quiet=True)
    assert "replay starts empty" in notes(again.folder)


class Forgetful(gymnasium.Env[np.ndarray, int]):
    """An environment whose chance does not hang on its seed."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return self._look(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self._look(), 1.0, False, False, {}

    def _look(self) -> np.ndarray:
        return np.random.default_rng().random(1, np.float32)


def test_a_world_that_does_not_repeat_itself_is_found_out(tmp_path: Path) -> None:
    RUNS["forgetful"] = {
        "env": {"id": f"{__name__}:Forgetful", "num_envs": 8},
        "algorithm": {"name": "a2c", "unroll": 4},
    }
    shoal.train(experiment("forgetful", 2), root=tmp_path, trial="a", on="inline", quiet=True)
    with pytest.raises(ShoalError, match=r"does not repeat itself.* resume with placement.exact=false"):
        shoal.resume("cut", "a", overrides=["stop.updates=4"], root=tmp_path, on="inline", quiet=True)
    overrides = ["stop.updates=4", "placement.exact=false"]
    again = shoal.resume("cut", "a", overrides=overrides, root=tmp_path, on="inline", quiet=True)
    assert "open episodes begin anew" in notes(again.folder)
