"""Whole runs under the inline launcher: reproducible, resumable, stopped by the right rule."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError, ShoalError
from shoal.checkpoints.store import CheckpointStore

train, resume = (functools.partial(call, on="inline") for call in (shoal.train, shoal.resume))

BASE: dict[str, Any] = {
    "env": {"id": "CartPole-v1", "num_envs": 8},
    "algorithm": {"name": "ppo", "unroll": 32, "minibatch": 64, "normalise_observations": True},
    "model": {"name": "mlp", "hidden": [16]},
    "stop": {"updates": 6},
    "name": "base",
}


def experiment(**sections: Any) -> Experiment:
    tree = json.loads(json.dumps(BASE))
    for name, values in sections.items():
        tree[name] = {**tree.get(name, {}), **values} if isinstance(values, dict) else values
    return Experiment.parse(tree)


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


def equal(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"env": {"vector": "loop"}},
        {"model": {"name": "gru"}},
        {"placement": {"max_lag": 1}},
        {"env": {"id": "Pendulum-v1"}, "algorithm": {"normalise_rewards": True}},
    ],
)
def test_one_seed_one_run(tmp_path: Path, sections: dict[str, Any]) -> None:
    sections = {"placement": {}, **sections}
    tree = experiment(**{k: v for k, v in sections.items() if k != "placement"}).model_copy(
        update={"placement": experiment().placement.model_copy(update=sections["placement"])}
    )
    one = train(tree, root=tmp_path / "1", quiet=True)
    two = train(tree, root=tmp_path / "2", quiet=True)
    other = train(tree.model_copy(update={"seed": 2}), root=tmp_path / "3", quiet=True)
    assert rows(one.folder) == rows(two.folder)
    assert equal(weights(one.folder), weights(two.folder))
    assert not equal(weights(one.folder), weights(other.folder))


def test_another_process_gets_the_same_bits(tmp_path: Path) -> None:
    here = train(experiment(), root=tmp_path / "here", quiet=True)
    code = (
        "import json, sys, shoal; from shoal.api.experiment import Experiment;"
        "shoal.train(Experiment.parse(json.loads(sys.argv[1])), root=sys.argv[2], trial='there', on='inline', quiet=True)"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(BASE), str(tmp_path)], check=True)
    there = tmp_path / "base" / "there"
    assert rows(here.folder) == rows(there)
    assert equal(weights(here.folder), weights(there))


def test_rows_and_steps_are_conserved(tmp_path: Path) -> None:
    """On-policy: what was produced was trained on, except what is in flight when the run stops."""
    outcome = train(
        experiment(env={"vector": "loop"}, algorithm={"normalise_observations": False}), root=tmp_path, quiet=True
    )
    trained = sum(row["train/rows"] for row in rows(outcome.folder))
    assert trained == outcome.steps


def test_lag_is_bounded(tmp_path: Path) -> None:
    for lag in (0, 1, 3):
        tree = experiment().model_copy(update={"placement": experiment().placement.model_copy(update={"max_lag": lag})})
        outcome = train(tree, root=tmp_path, quiet=True)
        assert max(row["train/lag"] for row in rows(outcome.folder)) == lag


# ---------------------------------------------------------------- stop rules


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ({"updates": 2}, "stop.updates = 2 reached"),
        ({"updates": None, "steps": 500}, "stop.steps = 500 reached"),
        ({"updates": None, "seconds": 0.3}, "stop.seconds = 0.3 reached"),
    ],
)
def test_stop_rules(tmp_path: Path, stop: dict[str, Any], reason: str) -> None:
    assert train(experiment(stop=stop), root=tmp_path, quiet=True).reason == reason


def test_stop_return_is_confirmed_greedily(tmp_path: Path) -> None:
    outcome = train(experiment(stop={"updates": 50, "return": 15.0, "episodes": 7}), root=tmp_path, quiet=True)
    assert outcome.reason.startswith("stop.return = 15 reached: greedy mean")
    assert "over 7 episodes" in outcome.reason, "as many as were asked for"
    assert outcome.scores is not None
    assert len(outcome.scores.returns) == 7
    assert outcome.scores.mean >= 15
    assert rows(outcome.folder)[-1]["eval/mean_reward"] == outcome.scores.mean


def test_confirmation_counts_no_steps(tmp_path: Path) -> None:
    goal = train(experiment(stop={"updates": 50, "return": 15.0}), root=tmp_path, quiet=True)
    plain = train(experiment(stop={"updates": goal.version}), root=tmp_path, quiet=True)
    assert goal.steps == plain.steps
    assert equal(weights(goal.folder), weights(plain.folder))


# ---------------------------------------------------------------- resume


def test_resume_goes_on_counting(tmp_path: Path) -> None:
    first = train(experiment(), root=tmp_path, trial="a", quiet=True)
    second = resume("base", "a", overrides=["stop.updates=9"], root=tmp_path, quiet=True)
    assert second.version == 9
    assert second.steps > first.steps
    assert [row["update"] for row in rows(second.folder)] == list(range(1, 10))
    steps = [row["step"] for row in rows(second.folder)]
    assert steps == sorted(set(steps))
    episodes = [row["rollout/episodes"] for row in rows(second.folder)]
    assert episodes == sorted(episodes)


def test_resume_passes_over_a_damaged_checkpoint(tmp_path: Path) -> None:
    first = train(experiment(), root=tmp_path, trial="a", quiet=True)
    resume("base", "a", overrides=["stop.updates=9"], root=tmp_path, quiet=True)
    newest = max((first.folder / "checkpoints").glob("0*")) / "state.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    with pytest.raises(InputError, match="checkpoint 9 of .* is damaged .*: try --checkpoint 6"):
        shoal.evaluate("base/a", episodes=1, root=tmp_path)
    assert shoal.evaluate("base/a", episodes=1, checkpoint="6", root=tmp_path)[1] == 6
    resume("base", "a", overrides=["stop.updates=8"], root=tmp_path, quiet=True)
    events = [json.loads(line) for line in (first.folder / "events.jsonl").read_text().splitlines()]
    assert any("checkpoint 9 is damaged" in event.get("text", "") for event in events)
    assert [row["update"] for row in rows(first.folder)] == list(range(1, 9))


def test_a_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    first = train(experiment(), root=tmp_path, trial="a", quiet=True)
    again = resume("base", "a", root=tmp_path, quiet=True)
    assert (again.version, again.steps, again.reason) == (first.version, first.steps, first.reason)


def test_settings_that_do_not_fit_the_checkpoint_cost_nothing(tmp_path: Path) -> None:
    train(experiment(), root=tmp_path, trial="a", quiet=True)
    with pytest.raises(InputError, match="the checkpoint of policy 'agent' does not fit: leave env, model"):
        resume("base", "a", overrides=["model.hidden=[7]"], root=tmp_path, quiet=True)
    assert shoal.evaluate("base/a", episodes=1, root=tmp_path)[1] == 6
    assert resume("base", "a", overrides=["stop.updates=7"], root=tmp_path, quiet=True).version == 7


def test_several_policies_share_one_row(tmp_path: Path) -> None:
    tree = experiment(env={"id": "shoal/signal"}, algorithm={"unroll": 8, "minibatch": 16})
    outcome = train(tree, root=tmp_path, quiet=True)
    assert [row["update"] for row in rows(outcome.folder)] == [1, 2, 3, 4, 5, 6]
    for row in rows(outcome.folder):
        assert {"train/speaker/loss", "train/listener/loss", "rollout/speaker/agent_return"} <= set(row)
        assert "train/loss" not in row


def test_an_existing_trial_is_not_overwritten(tmp_path: Path) -> None:
    train(experiment(stop={"updates": 1}), root=tmp_path, trial="a", quiet=True)
    with pytest.raises(InputError, match="--resume"):
        train(experiment(), root=tmp_path, trial="a", quiet=True)


# ---------------------------------------------------------------- faults


def test_sigint_saves_and_stops(tmp_path: Path) -> None:
    def interrupt() -> None:
        while not list(tmp_path.glob("base/*/metrics.jsonl")):
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    outcome = train(experiment(stop={"updates": 100_000}), root=tmp_path, quiet=True)
    assert outcome.interrupted
    assert outcome.reason == "interrupted by SIGINT"
    assert CheckpointStore(outcome.folder / "checkpoints", keep=3).latest().version == outcome.version


def test_a_world_that_gives_nan_is_dropped_then_stops_the_run(tmp_path: Path) -> None:
    tree = experiment(env={"id": "tests.launchers.broken:nan_reward", "num_envs": 2}, stop={"updates": 100})
    tree = tree.model_copy(update={"algorithm": tree.algorithm.model_copy(update={"minibatch": 32})})
    with pytest.raises(ShoalError, match="10 batches in a row were not finite, the last: reward of lanes"):
        train(tree, root=tmp_path, quiet=True)


def test_a_world_that_gives_nan_once_is_survived(tmp_path: Path) -> None:
    tree = experiment(env={"id": "tests.launchers.broken:nan_once", "num_envs": 2}, stop={"updates": 4})
    tree = tree.model_copy(update={"algorithm": tree.algorithm.model_copy(update={"minibatch": 32})})
    outcome = train(tree, root=tmp_path, quiet=True)
    dropped = [row.get("train/dropped_not_finite", 0) for row in rows(outcome.folder)]
    trained = [row.get("train/rows", 0) for row in rows(outcome.folder)]
    assert dropped == [0, 64, 0, 0]
    assert trained == [64, 0, 64, 64]
    assert all(tensor.isfinite().all() for tensor in weights(outcome.folder).values())


@pytest.mark.parametrize(
    ("every", "saved"), [("4 updates", [4, 6, 8, 9]), ("600 steps", [3, 5, 6, 8, 9]), ("1h", [6, 9])]
)
def test_checkpoints_come_at_their_time(tmp_path: Path, every: str, saved: list[int]) -> None:
    """Also after a resume at 6, which is between two times."""
    tree = experiment(checkpoint={"every": every, "keep": 9})
    first = train(tree, root=tmp_path, trial="a", quiet=True)
    resume("base", "a", overrides=["stop.updates=9"], root=tmp_path, quiet=True)
    assert CheckpointStore(first.folder / "checkpoints").versions() == saved, [
        row["step"] for row in rows(first.folder)
    ]
