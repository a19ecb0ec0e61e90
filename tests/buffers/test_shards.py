"""Batches made of parts of several shards: what is drawn how often, and what it counts then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shoal.api.algorithm import Priorities
from shoal.buffers.prioritised import PrioritisedReplay
from shoal.buffers.sequences import SequenceReplay
from shoal.buffers.uniform import UniformReplay
from shoal.buffers.weights import batch_weights, beta_at
from tests.buffers.test_prioritised import expected
from tests.buffers.test_uniform import equal, fragment, sequence

ALPHA = 0.7
PRIORITIES = [np.linspace(0.1, 4, 6), np.linspace(2, 9, 10)]
"""Of two shards of unequal size, which know nothing of each other."""
SIZES = (5, 3)
"""Sequences that each gives to a batch."""


def shards(beta: float) -> list[PrioritisedReplay]:
    made = []
    for slot, priorities in enumerate(PRIORITIES):
        shard = PrioritisedReplay(fragment(1, 0), 16, Priorities(ALPHA, beta), seed=1, slot=slot)
        shard.insert(replace(fragment(len(priorities), slot, 1.0), priority=priorities))
        made.append(shard)
    return made


def batch(made: list[PrioritisedReplay], update: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Which sequences, shard 0's first, and their weights."""
    numbers, parts = [], []
    for slot, (shard, size) in enumerate(zip(made, SIZES, strict=True)):
        drawn = shard.sample_into(fragment(size, 99), update)
        numbers.append(drawn.keys + slot * len(PRIORITIES[0]))
        parts.append((drawn.chances, shard.filled))
    return np.concatenate(numbers), batch_weights(parts, beta)


def test_frequencies_are_what_the_weights_take_them_for() -> None:
    """Chi-square of 14 degrees of freedom (two totals are fixed): 36.1 is passed once in a thousand times."""
    made, updates = shards(1.0), 4000
    counts = np.bincount(np.concatenate([batch(made, update, 1.0)[0] for update in range(updates)]), minlength=16)
    share = np.concatenate([updates * k * expected(p, ALPHA) for k, p in zip(SIZES, PRIORITIES, strict=True)])
    assert ((counts - share) ** 2 / share).sum() < 36.1
    numbers, weights = batch(made, 0, 1.0)
    probability = share / share.sum()
    true = 1 / (16 * probability[numbers])
    assert weights == pytest.approx(true / true.max(), rel=1e-5)


def test_the_expected_gradient_is_that_of_all_sequences_alike() -> None:
    """With beta 1 a weighted sum over batches is, but for a factor, the plain sum over both shards.

    The factor is the greatest weight of a batch. To see through it, weights are set in proportion to that of one sequence.
    """
    made, gradient = shards(1.0), np.random.default_rng(0).normal(size=(16, 3)) + 1
    total, counted = np.zeros(3), 0.0
    share = np.concatenate([k / 8 * expected(p, ALPHA) for k, p in zip(SIZES, PRIORITIES, strict=True)])
    for update in range(6000):
        numbers, weights = batch(made, update, 1.0)
        weights = weights * (1 / (16 * share[numbers[0]])) / weights[0]
        total += weights @ gradient[numbers]
        counted += len(numbers)
    assert total / counted == pytest.approx(gradient.mean(0), abs=0.05)
    uneven = np.concatenate([gradient[:6].mean(0, keepdims=True), gradient[6:].mean(0, keepdims=True)]).mean(0)
    assert total / counted != pytest.approx(uneven, abs=0.05), "shards alike is not sequences alike"


def test_one_shard_weighs_as_a_buffer_without_others() -> None:
    made = shards(0.4)[0]
    drawn = made.sample_into(fragment(12, 99), 3)
    alone = made.sample(12, 3)
    assert np.array_equal(drawn.keys, alone.keys)
    assert np.array_equal(batch_weights([(drawn.chances, made.filled)], 0.4), alone.weights)
    assert beta_at(Priorities(1.0, 0.4), 7) == 0.4


@pytest.mark.parametrize("kind", ["uniform", "prioritised"])
def test_sampling_into_given_arrays_is_sampling(kind: str) -> None:
    replay: SequenceReplay = (
        UniformReplay(fragment(1, 0), 8, seed=1)
        if kind == "uniform"
        else PrioritisedReplay(fragment(1, 0), 8, Priorities(0.6, 0.4), seed=1)
    )
    with pytest.raises(ValueError, match="insert comes first"):
        replay.sample_into(fragment(5, 99), 7)
    replay.insert(fragment(11, 1, 1.0))
    given, fresh = fragment(5, 99), replay.sample(5, 7)
    arrays = given.reward, given.state
    drawn = replay.sample_into(given, 7)
    assert all(equal(sequence(given, i), sequence(_bare(fresh), i)) for i in range(5))
    assert given.reward is arrays[0]
    assert given.state is arrays[1]
    assert np.array_equal(given.lanes, drawn.keys), "lane i was inserted i-th"
    if kind == "uniform":
        assert drawn.chances.tolist() == [1 / 8] * 5


def _bare(drawn):  # type: ignore[no-untyped-def]
    drawn.keys = drawn.weights = None
    return drawn
