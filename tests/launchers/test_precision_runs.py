"""Whole runs by another arithmetic: trainers and policy workers follow it, actors and evaluations stay with float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from shoal.api.experiment import Experiment
from shoal.program.expand import expand
from shoal.runs.evaluate import evaluate
from shoal.runs.facts import unused_settings
from tests.cli.test_cli import refused
from tests.launchers.test_device_runs import THERE, experiment, placed, weights

BF16: dict[str, Any] = {"precision": "bf16"}
WORKER = {"actors": 1, "inference": "worker"}


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(tensor, other[key]) for key, tensor in one.items())


@pytest.mark.parametrize("shape", [{}, WORKER], ids=["inline", "worker"])
def test_runs_in_bf16_repeat_and_differ_from_those_in_fp32(shape: dict[str, Any], tmp_path: Path) -> None:
    """Whoever launches it: at lag 0 the bits of `local` are those of `inline`."""
    exact = weights(tmp_path, "fp32", placed({}, shape))
    here, processes = (weights(tmp_path, on, placed({}, {**shape, **BF16}), on) for on in ("inline", "local"))
    assert not equal(exact, here)
    assert equal(here, processes)
    assert len(evaluate(str(tmp_path / "base/local"), episodes=2)[0].returns) == 2


def test_a_run_there_is_one_here(tmp_path: Path) -> None:
    here = weights(tmp_path, "here", placed({}, BF16))
    there = weights(tmp_path, "there", placed({}, {**THERE, **BF16}))
    for key, tensor in here.items():
        assert torch.allclose(there[key], tensor, 1e-2, 1e-3), f"{key}: {(there[key] - tensor).abs().max()}"


def test_tf32_changes_nothing_on_a_cpu_and_says_so(tmp_path: Path) -> None:
    one, other = (weights(tmp_path, name, placed({}, {"precision": name})) for name in ("fp32", "tf32"))
    assert equal(one, other)
    (said,) = unused_settings(experiment(placement={"precision": "tf32"}), "local")
    assert said.startswith("placement.precision = 'tf32' changes nothing on cpu: only CUDA devices have it")
    assert unused_settings(experiment(placement={"precision": "tf32", "device": "cuda"}), "local") == []
    on_workers = {"precision": "tf32", "inference": "worker", "policy_device": "cuda:1"}
    assert unused_settings(experiment(placement=on_workers), "local") == []


def test_bf16_without_a_network_to_round_says_so() -> None:
    def notes(model: dict[str, Any]) -> tuple[str, ...]:
        found: Experiment = experiment(model=model, placement=BF16)
        return expand(found).policies["agent"].facts.notes

    assert notes({"name": "gru", "hidden": [8]})[-1].startswith("placement.precision = 'bf16' changes nothing here")
    assert not [note for note in notes({"name": "gru", "hidden": [8, 8]}) if "bf16" in note]


def test_a_precision_that_is_none_is_one_line(tmp_path: Path) -> None:
    assert "placement.precision" in refused("train", "cartpole", "placement.precision=fp16", cwd=tmp_path)
