"""Uniform replay against a plain list of sequences."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.fragment import PER_LANE, Fragment
from shoal.base.tree import tree_leaves
from shoal.buffers.columns import replay_nbytes
from shoal.buffers.uniform import UniformReplay

ROWS = 3


def fragment(lanes: int, seed: int, share: float = 0.7) -> Fragment:
    random = np.random.default_rng(seed)

    def flags() -> np.ndarray:
        return random.random((ROWS, lanes)) < share

    return Fragment(
        observation={"near": random.normal(size=(ROWS, lanes, 2)).astype(np.float32), "far": flags()},
        action=random.integers(0, 9, (ROWS, lanes)),
        reward=random.normal(size=(ROWS, lanes)).astype(np.float32),
        terminated=flags(), truncated=flags(), valid=flags(), first=flags(),
        version=random.integers(0, 9, (ROWS, lanes)),
        extras={"note": random.normal(size=(ROWS, lanes)).astype(np.float32)},
        action_mask=None,
        state=random.normal(size=(lanes, 4)).astype(np.float32),
        lanes=np.arange(lanes),
    )  # fmt: skip


def sequence(batch: Fragment, lane: int) -> dict[str, Any]:
    """One lane of a fragment, array by array."""
    return {
        f"{name}/{path}": leaf[lane] if name in PER_LANE else leaf[:, lane]
        for name in vars(batch)
        for path, leaf in tree_leaves(getattr(batch, name))
    }


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


@given(
    capacity=st.integers(1, 7),
    inserts=st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0.0, 0.2, 0.7, 1.0])), min_size=1, max_size=6),
)
def test_against_a_list(capacity: int, inserts: list[tuple[int, float]]) -> None:
    replay = UniformReplay(fragment(2, 0), capacity, seed=3)
    kept: list[dict[str, Any]] = []
    everything = 0
    for number, (lanes, share) in enumerate(inserts):
        batch = fragment(lanes, number, share)
        replay.insert(batch)
        kept += [sequence(batch, lane) for lane in range(lanes) if batch.valid[:, lane].any()]
        everything = sum(int(one["valid/"].sum()) for one in kept)
    newest = kept[-capacity:]
    held = sum(int(one["valid/"].sum()) for one in newest)
    assert (replay.inserted, replay.held, replay.evicted) == (everything, held, everything - held)
    assert replay.filled == len(newest)
    if not newest:
        with pytest.raises(ValueError, match="insert comes first"):
            replay.sample(1, 0)
        return
    drawn = replay.sample(40, 5)
    found = [sequence(drawn, i) for i in range(40)]
    assert all(any(equal(one, own) for own in newest) for one in found)


def test_every_sequence_is_drawn_alike() -> None:
    replay = UniformReplay(fragment(1, 0), 8, seed=1)
    replay.insert(fragment(11, 1, 1.0))
    counts = Counter(np.concatenate([replay.sample(100, update).lanes for update in range(80)]).tolist())
    assert set(counts) == set(range(3, 11))
    assert max(abs(count - 1000) for count in counts.values()) < 150


def test_a_sample_is_a_function_of_seed_and_update() -> None:
    def lanes(seed: int, update: int, slot: int = 0) -> list[int]:
        replay = UniformReplay(fragment(1, 0), 64, seed=seed, slot=slot)
        replay.insert(fragment(64, 1, 1.0))
        return replay.sample(8, update).lanes.tolist()

    assert lanes(1, 2) == lanes(1, 2)
    assert len({tuple(lanes(*key)) for key in ((1, 2), (1, 3), (2, 2), (1, 2, 1))}) == 4


def test_state_goes_on() -> None:
    replay, other = (UniformReplay(fragment(1, 0), 5, seed=1) for _ in range(2))
    replay.insert(fragment(7, 1, 1.0))
    other.load_state_dict(replay.state_dict())
    for one in (replay, other):
        one.insert(fragment(1, 2, 1.0))
    assert equal(replay.state_dict(), other.state_dict())
    assert (other.inserted, other.evicted, other.held) == (8 * ROWS, 3 * ROWS, 5 * ROWS)
    with pytest.raises(ValueError, match="not"):
        UniformReplay(fragment(1, 0), 6, seed=1).load_state_dict(replay.state_dict())


def test_bytes_are_known_before() -> None:
    assert UniformReplay(fragment(3, 0), 11, seed=1).nbytes == replay_nbytes(fragment(2, 0), 11) > 0
