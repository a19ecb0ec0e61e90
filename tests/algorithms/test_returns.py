"""Returns against slow references, row by row, straight from the papers."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.algorithms.returns import discounted_sums, gae, reverse_scan


def slow_gae(reward, value, terminated, truncated, valid, gamma, lam):  # type: ignore[no-untyped-def]
    rows, lanes = reward.shape
    out = np.zeros((rows, lanes))
    for b in range(lanes):
        running = 0.0
        for t in reversed(range(rows)):
            if not valid[t, b]:
                running = 0.0
                continue
            if terminated[t, b]:
                running = reward[t, b] - value[t, b]
            elif truncated[t, b]:
                running = reward[t, b] + gamma * value[t + 1, b] - value[t, b]
            else:
                delta = reward[t, b] + gamma * value[t + 1, b] - value[t, b]
                running = delta + gamma * lam * running
            out[t, b] = running
    return out


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(2, 70),
    lanes=st.integers(1, 4),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
)
def test_gae(seed: int, rows: int, lanes: int, gamma: float, lam: float) -> None:
    random = np.random.default_rng(seed)
    reward, value = random.normal(size=(2, rows, lanes))
    valid = np.ones((rows, lanes), bool)
    terminated = random.random((rows, lanes)) < 0.1
    truncated = (random.random((rows, lanes)) < 0.1) & ~terminated
    valid[1:] &= ~truncated[:-1]  # the row behind a truncation is its final observation
    terminated &= valid
    truncated &= valid
    valid[-1] = False
    truncated[-1] = terminated[-1] = False
    got = gae(*map(torch.from_numpy, (reward, value, terminated, truncated, valid)), gamma=gamma, lam=lam)
    np.testing.assert_allclose(
        got.numpy(), slow_gae(reward, value, terminated, truncated, valid, gamma, lam), atol=1e-9
    )


def test_truncation_values_the_future_and_termination_does_not() -> None:
    reward = torch.tensor([[1.0], [0.0], [0.0]])
    value = torch.tensor([[0.5], [10.0], [99.0]])
    valid = torch.tensor([[True], [False], [False]])
    yes, no = torch.tensor([[True], [False], [False]]), torch.zeros(3, 1, dtype=torch.bool)
    assert gae(reward, value, yes, no, valid, gamma=0.9, lam=0.95)[0].item() == 0.5
    assert gae(reward, value, no, yes, valid, gamma=0.9, lam=0.95)[0].item() == 1.0 + 9.0 - 0.5


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 130))
def test_reverse_scan(seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    term, factor = random.normal(size=(rows, 2)), random.random((rows, 2))
    slow = np.zeros((rows + 1, 2))
    for t in reversed(range(rows)):
        slow[t] = term[t] + factor[t] * slow[t + 1]
    np.testing.assert_allclose(reverse_scan(torch.from_numpy(term), torch.from_numpy(factor)), slow[:-1], atol=1e-9)


def test_discounted_sums_carry_over_fragments() -> None:
    random = np.random.default_rng(0)
    rows, lanes, gamma = 40, 3, 0.9
    reward = random.normal(size=(rows, lanes))
    first = random.random((rows, lanes)) < 0.1
    valid = random.random((rows, lanes)) < 0.9
    slow, running = np.zeros((rows, lanes)), np.zeros(lanes)
    for t in range(rows):
        for b in range(lanes):
            if valid[t, b]:
                running[b] = reward[t, b] + (0.0 if first[t, b] else gamma * running[b])
            slow[t, b] = running[b]
    carried = torch.zeros(lanes, dtype=torch.float64)
    parts = []
    for part in (slice(0, 17), slice(17, 40)):
        sums, carried = discounted_sums(
            torch.from_numpy(reward[part]),
            torch.from_numpy(first[part]),
            torch.from_numpy(valid[part]),
            carried,
            gamma=gamma,
        )
        parts.append(sums)
    np.testing.assert_allclose(torch.cat(parts).numpy(), slow, atol=1e-9)
