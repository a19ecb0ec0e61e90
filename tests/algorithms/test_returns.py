"""Returns against slow references, row by row, straight from the papers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.algorithms.returns import discounted_sums, gae, reverse_scan, vtrace


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


# ---------------------------------------------------------------- V-trace


def lanes_with_cursors(random: np.random.Generator, rows: int, lanes: int) -> tuple[np.ndarray, ...]:
    """terminated, truncated, valid as the builder lays them out: every lane has its own ends, and its own last row."""
    terminated, truncated, valid = np.zeros((3, rows, lanes), bool)
    for b in range(lanes):
        t, last = 0, random.integers(1, rows)  # row `last` is open: seen, not yet answered
        while t < last:
            valid[t, b] = True
            kind = random.random()
            terminated[t, b], truncated[t, b] = kind < 0.15, 0.15 <= kind < 0.3
            t += 2 if truncated[t, b] else 1
    return terminated, truncated, valid


def slow_vtrace(reward, value, log_ratio, terminated, truncated, valid, gamma, lam, rho_bar, c_bar):  # type: ignore[no-untyped-def]
    """The sum of equation 1, for one start after the other: v_s = V_s + sum_t gamma^(t-s) (prod c_i) delta_t V."""
    target, advantage = value.copy(), np.zeros_like(value)
    for s, b in np.argwhere(valid):
        product, t = 1.0, s
        while valid[t, b]:
            ratio = np.exp(log_ratio[t, b])
            future = 0.0 if terminated[t, b] else gamma * value[t + 1, b]
            target[s, b] += product * min(rho_bar, ratio) * (reward[t, b] + future - value[t, b])
            if terminated[t, b] or truncated[t, b]:
                break
            product *= gamma * lam * min(c_bar, ratio)
            t += 1
    for s, b in np.argwhere(valid):
        if terminated[s, b]:
            future = 0.0
        elif truncated[s, b]:
            future = value[s + 1, b]
        else:
            future = target[s + 1, b]
        error = reward[s, b] + gamma * future - value[s, b]
        advantage[s, b] = min(rho_bar, np.exp(log_ratio[s, b])) * error
    return target, advantage


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(2, 70),
    lanes=st.integers(1, 4),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
    bars=st.tuples(st.floats(0.5, 3), st.floats(0.5, 1.5)),
)
def test_vtrace(seed: int, rows: int, lanes: int, gamma: float, lam: float, bars: tuple[float, float]) -> None:
    random = np.random.default_rng(seed)
    reward, value, log_ratio = random.normal(size=(3, rows, lanes))
    ends = lanes_with_cursors(random, rows, lanes)
    log_ratio[~ends[2]] = np.inf  # nothing is known of decisions that were not made
    got = vtrace(
        *map(torch.from_numpy, (reward, value, log_ratio, *ends)), gamma=gamma, lam=lam, rho_bar=bars[0], c_bar=bars[1]
    )
    target, advantage = slow_vtrace(reward, value, log_ratio, *ends, gamma, lam, *bars)
    np.testing.assert_allclose(got.target.numpy(), target, atol=1e-9)
    np.testing.assert_allclose(got.advantage.numpy(), advantage, atol=1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
def test_vtrace_on_policy_is_the_lambda_return(lam: float) -> None:
    random = np.random.default_rng(0)
    reward, value = map(torch.from_numpy, random.normal(size=(2, 40, 6)))
    ends = tuple(map(torch.from_numpy, lanes_with_cursors(random, 40, 6)))
    got = vtrace(reward, value, torch.zeros_like(value), *ends, gamma=0.97, lam=lam)
    torch.testing.assert_close(got.target - value, gae(reward, value, *ends, gamma=0.97, lam=lam))
    if lam == 1.0:
        torch.testing.assert_close(got.advantage, gae(reward, value, *ends, gamma=0.97, lam=1.0))


def test_vtrace_weighs_by_what_the_policy_would_have_done() -> None:
    """One step, two actions, a behaviour that prefers the worse: the target is the return of the policy that learns."""
    policy, behaviour, rewards = np.array([0.9, 0.1]), np.array([0.4, 0.6]), np.array([1.0, 0.0])
    action = np.random.default_rng(0).choice(2, size=100_000, p=behaviour)
    reward = torch.from_numpy(np.stack([rewards[action], np.zeros(len(action))]))
    log_ratio = torch.from_numpy(np.stack([np.log(policy / behaviour)[action], np.zeros(len(action))]))
    over = torch.tensor([[True], [False]]).expand(2, len(action))
    value = torch.zeros_like(reward)
    got = vtrace(reward, value, log_ratio, over, torch.zeros_like(over), over, gamma=0.9, rho_bar=10.0)
    assert got.target[0].mean().item() == pytest.approx(0.9, abs=0.01)


# ---------------------------------------------------------------- scans


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
