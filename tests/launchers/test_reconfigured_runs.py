"""A run that is reconfigured after an update is, to the bit, a run that ended there and was resumed with other settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.api.messages import Message, Requested, Updated
from shoal.api.orders import Heard, Order, Reconfigure
from shoal.api.program import WorkerSpec
from shoal.api.worker import Worker
from shoal.checkpoints.store import CheckpointStore

LR = 0.0123
AT, UPDATES = 5, 12
HERE = "tests.launchers.test_reconfigured_runs"
CARTPOLE = {"id": "CartPole-v1", "num_envs": 8}
REPLAY = {"unroll": 4, "batch": 32, "warmup": 64, "capacity": 400}
RUNS: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm": {"name": "ppo", "unroll": 16}},
    "ppo, normalised": {
        "algorithm": {
            "name": "ppo", "unroll": 16, "normalise_rewards": True, "normalise_observations": True,
            "normalise_values": True, "shared": True,
        },
    },
    "appo": {"algorithm": {"name": "appo", "unroll": 16}},
    "impala": {"algorithm": {"name": "impala", "unroll": 16}},
    "a2c": {"algorithm": {"name": "a2c", "unroll": 8}},
    "a3c": {"algorithm": {"name": "a3c", "unroll": 8}},
    "dqn": {"algorithm": {"name": "dqn", **REPLAY}},
    "dqn, prioritised": {"algorithm": {"name": "dqn", **REPLAY, "prioritised": True, "n_step": 3}},
    "r2d2": {
        "algorithm": {"name": "dqn", **REPLAY, "burn_in": 2, "prioritised": True, "epsilon": {"base": 0.4, "alpha": 7.0}},
        "model": {"name": "gru", "hidden": [8]},
    },
    "ngu": {
        "env": {"id": "shoal/deep-sea", "num_envs": 8, "kwargs": {"depth": 6}},
        "algorithm": {"name": "dqn", **REPLAY, "novelty": {"heads": "separate"}},
    },
    "qmix": {"env": {"id": "shoal/spread", "num_envs": 4}, "algorithm": {"name": "qmix", **REPLAY}},
    "sac": {"env": {"id": "Pendulum-v1", "num_envs": 4}, "algorithm": {"name": "sac", **REPLAY}},
    "sac, fixed temperature": {
        "env": {"id": "Pendulum-v1", "num_envs": 4}, "algorithm": {"name": "sac", **REPLAY, "temperature": 0.1},
    },
    "sac, choices": {"algorithm": {"name": "sac", **REPLAY}},
}  # fmt: skip


class TurnerSpec(WorkerSpec):
    """Hears of updates."""

    hears = (Updated,)

    def build(self, context: Any) -> Turner:
        (policy,) = context.program.learners
        return Turner(self.name, policy)


class Turner(Worker):
    """After one update it wants another learning rate."""

    def __init__(self, name: str, policy: str) -> None:
        self.name, self._policy = name, policy
        self._due = False

    def poll(self, timeout: float) -> list[Message]:
        if not self._due:
            return []
        self._due = False
        return [Requested("trainer", Reconfigure(self._policy, {"lr": LR}))]

    def handle(self, order: Order) -> list[Message]:
        self._due |= isinstance(order, Heard) and isinstance(order.message, Updated) and order.message.version == AT
        return []


def experiment(kind: str, updates: int, **rest: Any) -> Experiment:
    tree = {"env": CARTPOLE, "model": {"name": "mlp", "hidden": [8]}, "log": {"tensorboard": False}, "name": "turn"}
    return Experiment.parse({**tree, **RUNS[kind], "stop": {"updates": updates}, **rest})


def rows(folder: Path) -> list[dict[str, Any]]:
    """But for times, and what the worker itself makes of them."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in found]


@pytest.mark.parametrize("kind", RUNS)
def test_it_is_the_run_that_was_resumed_so(tmp_path: Path, kind: str) -> None:
    run = {"root": tmp_path, "on": "inline", "quiet": True}
    turned = experiment(kind, UPDATES, workers={"turner": f"{HERE}:TurnerSpec"})
    ordered = shoal.train(turned, trial="ordered", **run).folder
    events = [json.loads(line) for line in (ordered / "events.jsonl").read_text().splitlines()]
    assert [event["lr"] for event in events if event["kind"] == "reconfigured"] == [LR]
    shoal.train(experiment(kind, AT), trial="resumed", **run)
    words = [f"stop.updates={UPDATES}", f"algorithm.lr={LR}"]
    resumed = shoal.resume("turn", "resumed", overrides=words, **run).folder
    plain = shoal.train(experiment(kind, UPDATES), trial="plain", **run).folder
    learned = {folder: CheckpointStore(folder / "checkpoints").latest().tensors for folder in (ordered, resumed, plain)}
    same = {name: tensor for name, tensor in learned[ordered].items() if not name.endswith("settings")}
    assert same.keys() == learned[resumed].keys() == learned[plain].keys()
    assert not [name for name, tensor in same.items() if not torch.equal(tensor, learned[resumed][name])]
    assert [name for name, tensor in same.items() if not torch.equal(tensor, learned[plain][name])]
