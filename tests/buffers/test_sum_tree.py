"""The sum tree against plain lists: what is found, what is never found, and that nothing drifts."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.buffers import sum_tree
from shoal.buffers.sum_tree import SumTree, tree_nbytes

PRIORITIES = st.integers(0, 20).map(lambda tenths: tenths / 8)  # sums of eighths are exact
TOPS = st.sampled_from([0, 1, 2, sum_tree.TOP])  # small trees have levels to descend only below a small top
WRITES = st.lists(st.lists(st.tuples(st.integers(0, 12), PRIORITIES), max_size=9), max_size=6)


def make(leaves: int, top: int) -> SumTree:
    with patch.object(sum_tree, "TOP", top):
        return SumTree(leaves)


def filled(leaves: int, top: int, writes: list[list[tuple[int, float]]]) -> tuple[SumTree, list[float]]:
    """The tree, and what a list holds that was written one by one."""
    tree, plain = make(leaves, top), [0.0] * leaves
    for write in writes:
        places = [place % leaves for place, _ in write]
        tree.set(np.array(places, np.int64), np.array([value for _, value in write]))
        for place, (_, value) in zip(places, write, strict=True):
            plain[place] = value
    return tree, plain


def slow_find(plain: list[float], sought: float) -> int:
    total = 0.0
    for place, value in enumerate(plain):
        total += value
        if sought < total:
            return place
    raise AssertionError("beyond the total")


@settings(deadline=None)
@given(leaves=st.integers(1, 13), top=TOPS, writes=WRITES, shares=st.lists(st.integers(0, 255), max_size=8))
def test_against_a_list(leaves: int, top: int, writes: list[list[tuple[int, float]]], shares: list[int]) -> None:
    tree, plain = filled(leaves, top, writes)
    assert tree.values.tolist() == plain
    assert tree.total == sum(plain)
    sought = np.array([share / 256 * tree.total for share in shares])
    if tree.total:
        assert tree.find(sought).tolist() == [slow_find(plain, value) for value in sought]
    else:
        with pytest.raises(ValueError, match="every leaf is 0"):
            tree.find(sought)


def test_a_large_tree_against_running_sums() -> None:
    random = np.random.default_rng(3)
    tree, plain = SumTree(9000), np.zeros(9000)
    for _ in range(20):
        places, values = random.permutation(9000)[:700], random.integers(0, 20, 700) / 8
        tree.set(places, values)
        plain[places] = values
        edges = plain.cumsum()
        sought = np.concatenate([random.random(500) * tree.total, edges[edges < edges[-1]][::50]])
        assert tree.total == edges[-1]
        assert np.array_equal(tree.find(sought), edges.searchsorted(sought, "right"))


def test_churn_leaves_no_trace() -> None:
    random = np.random.default_rng(0)
    churned, fresh = make(1000, 3), make(1000, 3)
    for _ in range(500):
        churned.set(random.integers(0, 1000, 64), 10.0 ** random.uniform(-9, 9, 64))
    last = random.random(1000)
    churned.set(np.arange(1000), last)
    fresh.set(np.arange(1000), last)
    assert np.array_equal(churned._nodes, fresh._nodes)
    assert churned.total == fresh.total
    churned.set(np.arange(1000), np.zeros(1000))
    assert churned.total == 0.0


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 1e-12, 0.1, 0.3, 1e9]), min_size=1, max_size=20).filter(any), TOPS)
def test_what_is_zero_is_never_found(values: list[float], top: int) -> None:
    tree = make(len(values), top)
    tree.set(np.arange(len(values)), np.array(values))
    edges = np.cumsum(values)
    sought = np.concatenate([[0.0, tree.total, np.nextafter(tree.total, 0)], edges, np.nextafter(edges, 0)])
    found = tree.find(np.clip(sought, 0, tree.total))
    assert (tree.values[found] > 0).all()


def test_frequencies_follow_priorities() -> None:
    """Chi-square of 11 degrees of freedom: 31.3 is passed once in a thousand times. Independent numbers, not stratified."""
    priorities = np.array([1, 2, 3, 5, 8, 13, 0, 1, 2, 3, 5, 8, 13]) / 7
    tree = SumTree(13)
    tree.set(np.arange(13), priorities)
    draws = 50_000
    counts = np.bincount(tree.find(np.random.default_rng(1).random(draws) * tree.total), minlength=13)
    expected = draws * priorities / priorities.sum()
    held = priorities > 0
    assert counts[~held].tolist() == [0]
    assert ((counts - expected)[held] ** 2 / expected[held]).sum() < 31.3


def test_strata_leave_less_to_chance() -> None:
    """Each leaf comes within one of its share at either border of it."""
    priorities = np.random.default_rng(2).random(17)
    tree = SumTree(17)
    tree.set(np.arange(17), priorities)
    for seed in range(50):
        counts = np.bincount(tree.draw(np.random.default_rng(seed).random(400)), minlength=17)
        assert (np.abs(counts - 400 * priorities / priorities.sum()) < 2).all()


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_what_is_no_priority(value: float) -> None:
    tree = SumTree(3)
    with pytest.raises(ValueError, match="finite numbers from 0 on"):
        tree.set(np.array([1, 2]), np.array([1.0, value]))
    assert tree.total == 0.0


@pytest.mark.parametrize("place", [-1, 3])
def test_places_beyond_the_tree(place: int) -> None:
    with pytest.raises(IndexError, match="leaves 0 to 2"):
        SumTree(3).set(np.array([place]), np.ones(1))


def test_bytes_are_known_before() -> None:
    for leaves in (1, 2, 3, 64, 65):
        tree = SumTree(leaves)
        assert tree._cells.nbytes + tree._running.nbytes == tree_nbytes(leaves)
