"""Rescaled values: h and its inverse against the textbook in float64, and the targets made with them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.q_learning.rescaling import EPSILON, rescaled, restored
from tests.algorithms.batches import GRU, MLP
from tests.algorithms.q_learning import test_q_learning as alone
from tests.algorithms.q_learning import test_qmix as teams

MAGNITUDES = [sign * 10.0**power for power in range(-6, 9) for sign in (-1, 1)]


def h(x: float) -> float:
    """Pohlen et al. 2018, proposition A.2, in 28 digits."""
    size = abs(Decimal(x))
    return math.copysign(float((size + 1).sqrt() - 1 + Decimal(EPSILON) * size), x)


def inverse(y: float) -> float:
    """As the proposition states it, in 28 digits: float32 would lose it near 0."""
    epsilon, size = Decimal(EPSILON), abs(Decimal(y))
    root = ((1 + 4 * epsilon * (size + 1 + epsilon)).sqrt() - 1) / (2 * epsilon)
    return math.copysign(float(root * root - 1), y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("x", [0.0, 10.0, *MAGNITUDES])
def test_against_the_textbook(x: float, dtype: torch.dtype) -> None:
    exact = 2e-6 if dtype == torch.float32 else 1e-13
    given_x = torch.tensor(x, dtype=dtype)
    assert float(rescaled(given_x)) == pytest.approx(h(x), rel=exact, abs=1e-20)
    assert float(restored(given_x)) == pytest.approx(inverse(x), rel=exact, abs=1e-20)
    assert float(restored(rescaled(given_x))) == pytest.approx(x, rel=exact, abs=1e-20)
    assert float(rescaled(restored(given_x))) == pytest.approx(x, rel=exact, abs=1e-20)


def test_the_inverse_of_h_of_ten_is_ten() -> None:
    assert float(rescaled(torch.tensor(10.0))) == pytest.approx(2.3266, abs=1e-4)
    assert float(restored(rescaled(torch.tensor(10.0)))) == pytest.approx(10.0, rel=1e-6)


@settings(deadline=None)
@given(some.lists(some.floats(-1e6, 1e6, width=32), min_size=2, max_size=50))
def test_there_and_back_in_float32(values: list[float]) -> None:
    x = torch.tensor(values)
    squeezed = rescaled(x)
    assert torch.allclose(restored(squeezed), x, rtol=2e-6, atol=1e-30)
    order = x.argsort()
    assert (squeezed[order].diff() >= 0).all(), "h never turns"


@pytest.mark.parametrize("model", [MLP, GRU], ids=["mlp", "gru"])
@pytest.mark.parametrize("shape", [{}, {"n_step": 3}, {"double": False, "n_step": 2}])
def test_targets(shape: dict[str, Any], model: Any) -> None:
    """h of the rewards and of what the target network's words stand for, row by row."""
    algorithm = alone.make(model, rescale=True, **shape)
    with torch.no_grad():
        algorithm.target.flat.parameters.mul_(-1.5)
    batch = alone.batch_of(algorithm)
    batch.reward *= 1000
    expected = slow_targets(algorithm, batch)
    assert len(expected) >= 20
    found_values = algorithm._evaluate(batch)
    found = algorithm.targets(batch, found_values)
    for (row, lane), target in expected.items():
        assert float(found[row, lane]) == pytest.approx(target, rel=1e-4)
    metrics = algorithm.update(batch, SoloLearner()).metrics
    assert metrics["train/target_mean"].value == pytest.approx(np.mean(list(expected.values())), rel=1e-4)


def slow_targets(algorithm: Any, batch: Any) -> dict[tuple[int, int], float]:
    """The values a network says become returns, the plain targets follow, and are squeezed."""

    class Restored:
        """A policy that says returns."""

        def __init__(self, policy: Any) -> None:
            self.values = lambda *seen: (
                torch.from_numpy(np.vectorize(lambda y: inverse(float(y)))(policy.values(*seen)[0].numpy())),
                None,
            )

    class Plain:
        settings = algorithm.settings
        policy = Restored(algorithm.policy)

        class target:  # noqa: N801
            module = Restored(algorithm.target.module)

    return {at: h(target) for at, target in alone.slow_targets(Plain, batch).items()}  # type: ignore[arg-type]


def test_teams_rescale_what_they_are_worth_together() -> None:
    algorithm = teams.make(mixer="vdn", rescale=True)
    batch = teams.batch_of(algorithm)
    found_values = algorithm._evaluate(batch)
    plain = teams.make(mixer="vdn")
    returns = found_values._replace(following=restored(found_values.following))
    assert torch.allclose(algorithm.targets(batch, found_values), rescaled(plain.targets(batch, returns)))
