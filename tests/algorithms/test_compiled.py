"""Updates by compiled code: the numbers of those without, and no kernel in their place."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from shoal.base.arithmetic import Arithmetic
from shoal.testing.experience import batch_of
from tests.algorithms.test_algorithm_devices import saved, updated
from tests.testing.suites import CASES, REPLAY, Case

COMPILED = Arithmetic(compiled=True)
SAC = Case("sac", "continuous", {**REPLAY, "unroll": 1})
"""A graph takes seconds to make: all but the first are for make test-slow."""
WITH_FRONT = [Case("impala", "continuous", {"unroll": 8}, {"name": "lstm", "hidden": [16, 16]})]


def assert_equal_numbers(case: Case) -> None:
    plain, compiled = case.build(), case.build()
    compiled.compute_by(COMPILED)
    batches = [batch_of(plain, case.task, seed=seed, masked=case.masked) for seed in (1, 2)]
    ours, theirs = updated(plain, batches), updated(compiled, batches)
    one, other = saved(plain), saved(compiled)
    for name, tensor in one.items():
        assert torch.allclose(other[name], tensor, 1e-5, 1e-5), f"{name}: {(other[name] - tensor).abs().max()}"
    for own, its in zip(ours, theirs, strict=True):
        values = [{name: metric.value for name, metric in each.metrics.items()} for each in (own, its)]
        assert values[1] == pytest.approx(values[0], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("case", [CASES[0], pytest.param(SAC, marks=pytest.mark.slow)], ids=str)
def test_an_update_has_equal_numbers(case: Case) -> None:
    assert_equal_numbers(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", [*CASES, *WITH_FRONT], ids=str)
def test_every_update_has_equal_numbers(case: Case) -> None:
    assert_equal_numbers(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_compiled_bf16_is_bf16() -> None:
    """Rounded in other places than without compiled code, since layers are fused: as near to float32 as that is."""
    case = CASES[0]
    exact, rounded = case.build(), case.build()
    rounded.compute_by(Arithmetic(bf16=True, compiled=True))
    batch = batch_of(exact, case.task, seed=1, masked=case.masked)
    before = saved(exact)
    for algorithm in (exact, rounded):
        updated(algorithm, [batch])
    ends = saved(exact), saved(rounded)
    names = [name for name, tensor in before.items() if tensor.is_floating_point()]
    moved, apart = (
        torch.cat([(one[name] - other[name]).flatten().double() for name in names]).norm()
        for one, other in ((ends[0], before), (ends[0], ends[1]))
    )
    assert 0 < apart < 0.5 * moved


def test_kernels_stand_aside() -> None:
    ppo = replace(CASES[0]).build()
    ppo.compute_by(COMPILED)
    assert ppo.passes.kernel is None  # type: ignore[attr-defined]
    assert ppo.policy.quick() is None
