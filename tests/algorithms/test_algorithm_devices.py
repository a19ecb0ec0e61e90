"""Every algorithm on the pretend device: the numbers of the CPU, states that know no device, and no step along a NaN."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.undo import Undo
from shoal.api.algorithm import Algorithm, NonFiniteError, Update
from shoal.api.fragment import Fragment
from shoal.base.device import CPU
from shoal.base.transfer import to_device
from shoal.testing.device import DEVICE
from shoal.testing.experience import batch_of
from tests.testing.suites import CASES, CLIPPED, Case

RELATIVE, ABSOLUTE = 1e-5, 2e-6
"""Adam makes of the last bit of a small gradient a little more than that of a step of 1e-3."""


def moved(batch: Fragment, device: torch.device) -> Fragment:
    return batch if device.type == CPU else Fragment(**to_device(vars(batch), device))


def updated(algorithm: Algorithm, batches: list[Fragment]) -> list[Update]:
    learner = SoloLearner()
    learner.steps = 500
    return [learner.collect(algorithm.update(moved(batch, algorithm.device), learner)) for batch in batches]


def saved(algorithm: Algorithm) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in algorithm.state_dict().items()}


def assert_close(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.allclose(other[name], tensor, RELATIVE, ABSOLUTE), f"{name}: {(other[name] - tensor).abs().max()}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_update_is_that_of_the_cpu(case: Case) -> None:
    here, there = case.build(), case.build()
    there.to(DEVICE)
    assert {tensor.device for tensor in (*there.policy.parameters(), *there.policy.buffers())} == {DEVICE}
    batches = [batch_of(here, case.task, seed=seed, masked=case.masked) for seed in (1, 2)]
    ours, theirs = updated(here, batches), updated(there, batches)
    assert_close(saved(here), saved(there))
    for own, other in zip(ours, theirs, strict=True):
        values = [{name: metric.value for name, metric in each.metrics.items()} for each in (own, other)]
        assert values[1] == pytest.approx(values[0], rel=1e-3, abs=1e-4)
        if own.priorities is not None:
            assert other.priorities is not None
            torch.testing.assert_close(other.priorities, own.priorities, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [CASES[0], CASES[21], CASES[-1]], ids=str)
def test_a_state_goes_on_elsewhere(case: Case) -> None:
    first = case.build()
    batches = [batch_of(first, case.task, seed=seed, masked=case.masked) for seed in (1, 2)]
    first.to(DEVICE)
    updated(first, batches[:1])
    here, back = case.build(), case.build()
    here.load_state_dict(saved(first))
    back.to(DEVICE)
    back.load_state_dict(saved(here))
    for algorithm in (first, here, back):
        updated(algorithm, batches[1:])
    assert_close(saved(first), saved(here))
    assert all(torch.equal(tensor, saved(back)[name]) for name, tensor in saved(first).items())


def test_moving_there_and_back_changes_nothing() -> None:
    case = CASES[0]
    still, moving = case.build(), case.build()
    batch = batch_of(still, case.task, seed=1, masked=False)
    moving.to(DEVICE)
    assert moving.passes.kernel is None  # type: ignore[attr-defined]
    assert moving.policy.quick() is None
    moving.to(torch.device(CPU))
    assert moving.passes.kernel is not None  # type: ignore[attr-defined]
    for algorithm in (still, moving):
        updated(algorithm, [batch])
    assert all(torch.equal(tensor, saved(moving)[name]) for name, tensor in saved(still).items())


def test_a_gradient_that_is_not_finite_changes_nothing_and_is_told_at_the_end() -> None:
    algorithm, task = replace(CASES[0], config={**CLIPPED, "normalise_advantages": False}).build(), CASES[0].task
    batch = batch_of(algorithm, task, seed=1, masked=False)
    algorithm.to(DEVICE)
    undo, before, learner = Undo(algorithm), saved(algorithm), SoloLearner()
    batch.reward[0, 2] = float("nan")
    update = algorithm.update(moved(batch, DEVICE), learner)
    assert all(tensor.isfinite().all() for tensor in saved(algorithm).values())
    with pytest.raises(NonFiniteError, match="gradient's norm is nan"):
        learner.collect(update)
    undo.back()
    assert all(torch.equal(tensor, saved(algorithm)[name]) for name, tensor in before.items())
    batch.reward[0, 2] = 0.0
    updated(algorithm, [batch])  # the learner's memory of it is gone
