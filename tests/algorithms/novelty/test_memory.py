"""The episodic memory: against a slow version of the paper's algorithm, and never NaN."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.algorithms.novelty.memory import EpisodicMemory


class SlowMemory:
    """One lane of Badia et al. 2020, algorithm 1, neighbour by neighbour; those that are missing are at mean distance."""

    def __init__(self, neighbours: int, capacity: int) -> None:
        self.k, self.capacity = neighbours, capacity
        self.seen: list[np.ndarray] = []
        self.means: list[float] = []

    def reward(self, relative: list[float]) -> float:
        kernel = sum(1e-4 / (max(d - 0.008, 0.0) + 1e-4) for d in relative)
        similar = kernel**0.5 + 0.001
        return 0.0 if similar > 8 else 1 / similar

    def novelty(self, embedding: np.ndarray) -> float:
        nearest = sorted(float(((embedding - other) ** 2).sum()) for other in self.seen)[: self.k]
        if nearest:
            self.means.append(sum(nearest) / len(nearest))
        mean = sum(self.means) / len(self.means) if self.means else 0.0
        relative = [d / mean if mean else 0.0 for d in nearest] + [1.0] * (self.k - len(nearest))
        self.seen = [*self.seen, embedding][-self.capacity :]
        return self.reward(relative) / self.reward([1.0] * self.k)


@settings(deadline=None, max_examples=40)
@given(
    neighbours=st.integers(1, 5),
    capacity=st.integers(1, 9),
    places=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=40),
)
def test_novelty_is_that_of_the_paper(neighbours: int, capacity: int, places: list[tuple[int, int, bool]]) -> None:
    """Few places, so that many are seen again: distances of zero, one entry, a full memory, episodes that begin anew."""
    memory = EpisodicMemory(1, 2, neighbours=neighbours, capacity=capacity)
    slow = SlowMemory(neighbours, capacity)
    for x, y, begins in places:
        if begins:
            memory.forget(np.array([0]))
            slow.seen = []
        embedding = np.array([[x, y]], np.float32)
        found = memory.novelty(np.array([0]), embedding)
        assert np.isfinite(found).all()
        assert found[0] == pytest.approx(slow.novelty(embedding[0]), rel=1e-5)


def test_never_nan() -> None:
    """The mean distance is zero for as long as nothing moves: the first step, one entry, the same place for ever."""
    memory, row = EpisodicMemory(1, 3, neighbours=4, capacity=50), np.array([0])
    found = np.array([memory.novelty(row, np.zeros((1, 3), np.float32))[0] for _ in range(100)])
    assert np.isfinite(found).all()
    assert found[0] == 1.0, "nothing to compare with"
    assert found[-1] < 0.02
    far = memory.novelty(row, np.full((1, 3), 7.0, np.float32))
    assert np.isfinite(far).all()
    assert far[0] > 10 * found[-1]
    assert memory.novelty(np.array([], np.int64), np.zeros((0, 3), np.float32)).shape == (0,)


def test_a_place_that_is_seen_again_is_worth_less_each_time_and_new_again_in_the_next_episode() -> None:
    memory, row = EpisodicMemory(1, 5, neighbours=3, capacity=100), np.array([0])
    places = np.eye(5, dtype=np.float32)
    news = [memory.novelty(row, places[i : i + 1])[0] for i in range(5)]
    again = [memory.novelty(row, places[:1])[0] for _ in range(3)]
    assert min(news) == pytest.approx(1.0)
    assert 0.1 > again[0] > again[1] > again[2] > 0
    memory.forget(row)
    assert memory.novelty(row, places[:1])[0] == pytest.approx(1.0)


def test_lanes_do_not_know_of_each_other() -> None:
    random = np.random.default_rng(0)
    together = EpisodicMemory(3, 2, neighbours=4, capacity=80)
    alone = [EpisodicMemory(1, 2, neighbours=4, capacity=80) for _ in range(3)]
    for step in range(150):  # more than there is room for at first, and then more than is kept
        acting = np.flatnonzero(random.random(3) < 0.8)
        seen = random.integers(0, 4, (len(acting), 2)).astype(np.float32)
        found = together.novelty(acting, seen)
        single = [alone[lane].novelty(np.array([0]), seen[i : i + 1])[0] for i, lane in enumerate(acting)]
        assert found.tolist() == pytest.approx(single)
        if step % 40 == 39:
            together.forget(np.array([1]))
            alone[1].forget(np.array([0]))
