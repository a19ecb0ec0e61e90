"""A batch that is dropped halfway leaves no trace in any algorithm, and remembering costs next to nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.undo import Undo
from shoal.api.algorithm import Differentiable, NonFiniteError, Optimiser
from tests.algorithms.subjects import SUBJECTS, equal, state_of

STEPS = {
    "ppo": 4,
    "ppo, normalised": 4,
    "appo": 4,
    "impala": 2,
    "sac": 3,
    "sac, fixed temperature": 2,
    "sac, choices": 3,
}
"""Of one update; one where nothing is said."""


class Spoiling(SoloLearner):
    """The gradient of the step with this number, counted from 1, is NaN."""

    def __init__(self, spoilt: int) -> None:
        super().__init__()
        self.taken, self._spoilt = 0, spoilt

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        self.taken += 1
        return super().step(_NaN(loss, optimiser) if self.taken == self._spoilt else loss, optimiser, weight)


class _NaN:
    def __init__(self, loss: Tensor | Differentiable, optimiser: Optimiser) -> None:
        self._loss, self._gradients = loss, optimiser.flat.gradients

    def backward(self) -> None:
        self._loss.backward()
        assert self._gradients is not None
        self._gradients[0] = torch.nan


@pytest.mark.parametrize(
    ("name", "step"), [(name, step + 1) for name in SUBJECTS for step in range(STEPS.get(name, 1))]
)
def test_a_dropped_batch_leaves_no_trace(name: str, step: int) -> None:
    subject = SUBJECTS[name]
    algorithm: Any = subject.build()
    undo = Undo(algorithm)
    for _ in range(2):
        undo.note()
        algorithm.update(subject.batch(algorithm), SoloLearner())
    before = state_of(algorithm)
    undo.note()
    spoiling = Spoiling(step)
    batch = subject.batch(algorithm)
    with pytest.raises(NonFiniteError):
        algorithm.update(batch, spoiling)
    assert spoiling.taken == step
    if step > 1:
        assert not equal(state_of(algorithm), before)
    undo.back()
    assert equal(state_of(algorithm), before)
    # and it goes on as if that batch had never been
    other = subject.build()
    other.load_state_dict(before)
    for each in (algorithm, other):
        each.update(batch, SoloLearner())
    assert equal(state_of(algorithm), state_of(other))


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_whole_update_can_be_taken_back(name: str) -> None:
    """Targets, running statistics and the count too."""
    subject = SUBJECTS[name]
    algorithm: Any = subject.build({"tau": 0.5} if name.startswith(("dqn", "r2d2", "ngu", "qmix", "sac")) else {})
    undo, before = Undo(algorithm), state_of(algorithm)
    algorithm.update(subject.batch(algorithm), SoloLearner())
    changed = {key for key, value in state_of(algorithm).items() if not torch.equal(value, before[key])}
    assert {"policy", "updates"} <= {key.partition(".")[0] for key in changed}
    undo.back()
    assert equal(state_of(algorithm), before)


def test_a_bad_observation_is_undone_too() -> None:
    """Statistics of values are kept before the first step."""
    subject = SUBJECTS["ppo, normalised"]
    algorithm: Any = subject.build()
    batch = subject.batch(algorithm)
    undo, before = Undo(algorithm), state_of(algorithm)
    batch.observation[2, 1] = np.nan
    with pytest.raises(NonFiniteError):
        algorithm.update(batch, SoloLearner())
    undo.back()
    assert equal(state_of(algorithm), before)


def test_blocks_are_found_where_they_lie_now() -> None:
    """A block may be moved into shared memory after the undo was made."""
    subject = SUBJECTS["ppo"]
    algorithm: Any = subject.build()
    undo = Undo(algorithm)
    moved = torch.zeros_like(algorithm.flat.block)
    algorithm.flat.adopt(moved, fill=True)
    undo.note()
    before = moved.clone()
    algorithm.update(subject.batch(algorithm), SoloLearner())
    assert not torch.equal(moved, before)
    undo.back()
    assert torch.equal(moved, before)
