"""Losses against numpy, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from shoal.algorithms.losses import approximate_kl, clipped_policy_loss, explained_variance, value_loss


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def test_clipped_policy_loss() -> None:
    ratio, advantage = np.exp(draw(200)), draw(200, 1)[:, 0]
    slow = [-min(r * a, min(max(r, 0.8), 1.2) * a) for r, a in zip(ratio, advantage, strict=True)]
    got = clipped_policy_loss(torch.from_numpy(ratio), torch.from_numpy(advantage), 0.2)
    np.testing.assert_allclose(got.numpy(), slow)


def test_no_gradient_beyond_the_clip() -> None:
    log_ratio = torch.tensor([0.5, 0.5, -0.5, -0.5], requires_grad=True)
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0])
    clipped_policy_loss(log_ratio.exp(), advantage, 0.2).sum().backward()
    assert log_ratio.grad is not None
    assert (log_ratio.grad != 0).tolist() == [False, True, True, False]


def test_value_loss() -> None:
    value, target, old = draw(3, 100)
    got = value_loss(*map(torch.from_numpy, (value, target, old)), clip=None)
    assert got.item() == pytest.approx((0.5 * (value - target) ** 2).mean())
    clipped = value_loss(*map(torch.from_numpy, (value, target, old)), clip=0.3)
    slow = [
        0.5 * max((v - t) ** 2, (o + min(max(v - o, -0.3), 0.3) - t) ** 2)
        for v, t, o in zip(value, target, old, strict=True)
    ]
    assert clipped.item() == pytest.approx(np.mean(slow))


def test_kl_estimate_is_unbiased_and_never_negative() -> None:
    random = np.random.default_rng(0)
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.3, 0.3, 0.4])
    drawn = random.choice(3, size=200_000, p=p)
    log_ratio = torch.from_numpy(np.log(q / p)[drawn])
    estimate = approximate_kl(log_ratio, log_ratio.exp())
    assert estimate.min() >= 0
    assert abs(estimate.mean().item() - (p * np.log(p / q)).sum()) < 2e-3


def test_explained_variance() -> None:
    target = torch.from_numpy(draw(50))
    assert explained_variance(target, target).item() == 1.0
    assert abs(explained_variance(torch.zeros_like(target), target).item()) < 1e-12
    assert explained_variance(-target, target).item() < -1
    assert explained_variance(target, torch.ones_like(target)).item() == 0.0
