"""Every algorithm on the pretend device: the CPU's bits where operators come in the same order, otherwise its numbers; states
that know no device, and no step along a NaN."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.undo import Undo
from shoal.api.algorithm import Algorithm, NonFiniteError, Update
from shoal.api.fragment import Fragment
from shoal.base.arithmetic import by_hand
from shoal.base.device import CPU, on_cpu
from shoal.base.transfer import to_device
from shoal.testing.device import DEVICE
from shoal.testing.experience import batch_of
from tests.testing.suites import CASES, CLIPPED, GRU, MLP, REPLAY, Case

ABSOLUTE = 1e-6
ALL_FIELDS = {
    **CLIPPED, "value_clip": 0.2, "target_kl": 1.0, "entropy": 0.01, "normalise_observations": True, "normalise_rewards": True,
    "normalise_values": True, "critic": "central", "agent_ids": True,
}  # fmt: skip
MORE = [
    Case("ppo", "discrete", ALL_FIELDS),
    Case("ppo", "image", {**CLIPPED, "unroll": 4}, {"name": "impala"}),
    Case("dqn", "discrete", {**REPLAY, "novelty": {"heads": "separate"}, "prioritised": True}, GRU),
    Case("sac", "continuous", {**REPLAY, "unroll": 2, "learn_temperature": False}, {**MLP, "activation": "relu"}),
]


def moved(batch: Fragment, device: torch.device) -> Fragment:
    return batch if device.type == CPU else Fragment(**to_device(vars(batch), device))


def updated(algorithm: Algorithm, batches: list[Fragment]) -> list[Update]:
    learner = SoloLearner()
    learner.steps = 500
    return [learner.collect(algorithm.update(moved(batch, algorithm.device), learner)) for batch in batches]


def saved(algorithm: Algorithm) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in algorithm.state_dict().items()}


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor], within: float = 0.0) -> None:
    """To the bit, unless they may lie apart."""
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.allclose(other[name], tensor, 0.0, within), f"{name}: {(other[name] - tensor).abs().max()}"


def told(update: Update) -> dict[str, float]:
    """Metrics, and priorities beside them."""
    priorities = [] if update.priorities is None else update.priorities.tolist()
    return {name: metric.value for name, metric in update.metrics.items()} | {
        f"priority of {lane}": priority for lane, priority in enumerate(priorities)
    }


@contextmanager
def as_on_a_device() -> Iterator[None]:
    """Within, the CPU takes the way of a device: no kernels, and nobody looks at a value before the end."""
    ways = {"on_cpu": on_cpu, "by_hand": by_hand}
    with pytest.MonkeyPatch.context() as patch:
        for module in [module for name, module in sys.modules.items() if name.startswith("shoal.")]:
            for name, way in ways.items():
                if vars(module).get(name) is way and way.__module__ != module.__name__:
                    patch.setattr(module, name, lambda *given: False)
        yield


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=str)
def test_an_update_is_that_of_the_cpu(case: Case) -> None:
    here, there = case.build(), case.build()
    there.to(DEVICE)
    assert {tensor.device for tensor in (*there.policy.parameters(), *there.policy.buffers())} == {DEVICE}
    batches = [batch_of(here, case.task, seed=seed, masked=case.masked) for seed in (1, 2)]
    ours, theirs = updated(here, batches), updated(there, batches)
    with as_on_a_device():
        alike = case.build()
        same = updated(alike, batches)
    assert_equal(saved(alike), saved(there))
    assert_equal(saved(here), saved(there), within=ABSOLUTE)
    for own, other, equal in zip(ours, theirs, same, strict=True):
        assert told(other) == pytest.approx(told(equal), rel=0, abs=0, nan_ok=True)
        assert told(other) == pytest.approx(told(own), rel=1e-3, abs=1e-6)


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
    assert_equal(saved(first), saved(here), within=ABSOLUTE)
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
