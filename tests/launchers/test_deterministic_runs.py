"""Operators that repeat themselves: torch is told, and on a CPU no bit changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from shoal.models.heads.discrete import draw
from shoal.testing.device import DEVICE
from tests.launchers.test_device_runs import THERE, placed, weights
from tests.launchers.test_precision_runs import equal

REPEATED = {"deterministic": True}


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    filled, benchmark = torch.utils.deterministic.fill_uninitialized_memory, torch.backends.cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory, torch.backends.cudnn.benchmark = filled, benchmark
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


def test_a_run_tells_torch_and_a_cpu_keeps_its_bits(tmp_path: Path) -> None:
    plain = weights(tmp_path, "plain", {})
    assert not torch.are_deterministic_algorithms_enabled()
    one, two = (weights(tmp_path, trial, placed({}, REPEATED)) for trial in ("one", "two"))
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert equal(plain, one)
    assert equal(one, two)


def test_runs_there_repeat(tmp_path: Path) -> None:
    workers = {**THERE, "policy_device": "auto", "actors": 1, "inference": "worker", **REPEATED}
    one, two = (weights(tmp_path, trial, placed({}, workers)) for trial in ("one", "two"))
    assert equal(one, two)


def test_actions_are_drawn_without_a_sum_that_torch_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """On accelerators `cumsum` raises then; what takes its place draws the same, and never what is forbidden."""
    torch.manual_seed(0)
    logits = torch.randn(500, 7)
    logits[:, 2] = -1e9
    log_probs, noise = logits.log_softmax(-1), torch.rand(500, 1)
    expected = draw(log_probs, noise)
    torch.use_deterministic_algorithms(True)

    def refuses(self: torch.Tensor, *args: object) -> torch.Tensor:
        raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation")

    monkeypatch.setattr(torch.Tensor, "cumsum", refuses)
    drawn = draw(log_probs.to(DEVICE), noise.to(DEVICE)).cpu()
    assert (drawn == expected).float().mean() > 0.99
    assert not (drawn == 2).any()
