"""Whole runs on the pretend device: the weights of the CPU, the same whoever runs them, and on from one device to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.api.experiment import Experiment
from shoal.api.worker import Heartbeat
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.program import probe
from shoal.program.env_facts import inspect_env
from shoal.program.expand import expand
from shoal.program.measuring import Cost
from shoal.program.probe import choose_device
from shoal.program.report import plan_of
from shoal.runs.evaluate import evaluate
from shoal.runs.train import resume, train
from shoal.testing import device
from tests.cli.test_cli import refused, shoal

PRETEND = f"{device.__name__}:{device.DEVICE.type}"
THERE = {"device": PRETEND}
REPLAYED = {"unroll": 4, "batch": 32, "updates": 2, "capacity": 1_000, "warmup": 32}


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 4},
        "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32, "epochs": 2},
        "model": {"name": "mlp", "hidden": [8]},
        "stop": {"updates": 3},
        "name": "base",
        **sections,
    }
    return Experiment.parse(tree)


def weights(root: Path, trial: str, sections: dict[str, Any], on: str = "inline") -> dict[str, Tensor]:
    folder = train(experiment(**sections), trial=trial, root=root, on=on, quiet=True).folder
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


def placed(sections: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {**sections, "placement": {**sections.get("placement", {}), **more}}


RUNS: dict[str, dict[str, Any]] = {
    "ppo": {},
    "replicas": {"placement": {"trainers": 2}},
    "average": {"placement": {"trainers": 2, "agree": {"name": "average", "every": 1}}},
    "gru": {"model": {"name": "gru", "hidden": [8]}, "algorithm": {"name": "impala", "unroll": 8, "normalise_rewards": True}},
    "dqn": {"algorithm": {"name": "dqn", **REPLAYED, "prioritised": True}, "stop": {"updates": 5}},
    "sac": {
        "env": {"id": "Pendulum-v1", "num_envs": 4}, "stop": {"updates": 8},
        "algorithm": {"name": "sac", **REPLAYED, "unroll": 1, "warmup": 16},
    },
    "mappo, evaluated": {
        "env": {"id": "shoal/multi-cartpole", "num_envs": 4}, "placement": {"inference": "worker"},
        "algorithm": {"unroll": 8, "minibatch": 16, "critic": "central", "agent_ids": True, "normalise_values": True},
        "evaluation": {"every": "2 updates", "episodes": 2},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_run_there_has_the_weights_of_one_here(name: str, tmp_path: Path) -> None:
    own = RUNS[name]
    more = {**THERE, "policy_device": "auto"} if "inference" in own.get("placement", {}) else THERE
    here, there = weights(tmp_path, "cpu", own), weights(tmp_path, "there", placed(own, more))
    assert here.keys() == there.keys()
    for key, tensor in here.items():
        assert torch.allclose(there[key], tensor, 0.0, 1e-6), f"{key}: {(there[key] - tensor).abs().max()}"


def test_replay_may_lie_there(tmp_path: Path) -> None:
    """To the bit, with priorities."""
    own, kept = RUNS["dqn"], {**THERE, "replay_device": "trainer"}
    here, there = weights(tmp_path, "cpu", placed(own, THERE)), weights(tmp_path, "there", placed(own, kept))
    assert all(torch.equal(tensor, there[key]) for key, tensor in here.items())
    program = expand(experiment(**placed(own, kept)))
    shown = plan_of(program)["policies"]["agent"]
    assert shown["on_device"]["bytes_of_replay"] == shown["bytes_of_replay"] > 1_000


def test_processes_and_policy_workers_there(tmp_path: Path) -> None:
    """Under `local` every process finds the device by itself; at lag 0 the bits are those of `inline`."""
    workers = {**THERE, "policy_device": "auto", "actors": 1, "inference": "worker"}
    one, other = (weights(tmp_path, on, placed({}, workers), on) for on in ("inline", "local"))
    assert all(torch.equal(tensor, other[key]) for key, tensor in one.items())


def test_a_run_goes_on_and_is_evaluated_on_another_device(tmp_path: Path) -> None:
    whole = weights(tmp_path, "whole", {})
    weights(tmp_path, "cut", placed({"stop": {"updates": 2}}, THERE))
    folder = resume(
        "base", "cut", overrides=["placement.device=cpu", "stop.updates=3"], root=tmp_path, on="inline", quiet=True
    ).folder
    for key, tensor in CheckpointStore(folder / "checkpoints").latest().tensors.items():
        torch.testing.assert_close(tensor, whole[key], rtol=0, atol=1e-6)
    weights(tmp_path, "there", placed({}, THERE))
    assert len(evaluate(str(tmp_path / "base/there"), episodes=2)[0].returns) == 2


# ---------------------------------------------------------------- names and words


def test_a_device_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    said = refused("train", "cartpole", "--device", "cuda:7", cwd=tmp_path)
    assert "placement.device = 'cuda:7': there is no such device here; choose from: cpu" in said
    said = refused("train", "cartpole", "placement.policy_device=cuda:7", "placement.inference=worker", cwd=tmp_path)
    assert "placement.policy_device = 'cuda:7'" in said
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ({"policy_device": "cuda"}, "set placement.inference = worker"),
        ({"device": "cuda", "replay_device": "trainer", "buffers": 1}, "remove placement.buffers"),
        ({"device": "cuda", "trainers": 2, "agree": "hogwild"}, "hogwild replicas share memory of the CPU"),
    ],
)
def test_what_cannot_be_is_said_with_a_remedy(placement: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        expand(experiment(placement=placement))


def test_a_plan_shows_the_memory_and_reserves_a_gpu(tmp_path: Path) -> None:
    program = expand(experiment(placement={"device": "cuda", "trainers": 2}))
    there = plan_of(program)["policies"]["agent"]["on_device"]
    # actor and critic: 4 x 8 + 8, then 8 x 2 + 2 and 8 x 1 + 1
    assert there["bytes_of_parameters"] >= (1 + 2 * 3) * 4 * 107
    assert there["bytes_of_batch"] >= 2 * 17 * 4 * 4
    assert [process.device for process in program.processes if "trainer" in process.name] == ["cuda", "cuda"]
    assert {process.resources.get("GPU") for process in program.processes if "trainer" in process.name} == {1.0}
    printed = shoal("plan", "cartpole", "--device", "cuda", cwd=tmp_path).stdout
    assert "on cuda: 0." in printed
    assert "on cpu" not in shoal("plan", "cartpole", cwd=tmp_path).stdout


def test_auto_takes_what_is_faster_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = experiment(placement={"device": "auto"})
    facts = inspect_env(asked)
    monkeypatch.setattr(probe, "accelerator", lambda: None)
    chosen, why = choose_device(asked, facts, Heartbeat())
    assert (chosen.placement.device, why) == ("cpu", "placement.device: cpu, there is no accelerator here")
    monkeypatch.setattr(probe, "accelerator", lambda: "cuda")
    for seconds, wanted in ((0.010, "cuda"), (0.095, "cpu")):
        times = {"cpu": 0.1, "cuda": seconds}
        monkeypatch.setattr(
            probe,
            "measure",
            lambda program, heartbeat, times=times: Cost(0.0, times[program.experiment.placement.device]),
        )
        chosen, why = choose_device(asked, facts, Heartbeat())
        assert chosen.placement.device == wanted
        said = f"a round is learned from in {1000 * seconds:.0f} ms on cuda, in 100 ms on the CPU"
        assert why == f"placement.device: {wanted}, {said}"
    assert choose_device(experiment(), facts, Heartbeat())[1] is None
