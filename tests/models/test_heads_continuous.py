"""Heads for numbers, against torch.distributions, counted samples and integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import Tensor, distributions

from shoal.base.errors import InputError
from shoal.models.heads import build_head

SPACES = {
    "vector": Box(-2, 2, (3,)),
    "table": Box(-1, 3, (2, 2)),
    "number": Box(0, 1, ()),
}
CHI_SQUARE_999_DF_19 = 43.82


def reference(space: Box, parameters: Tensor, log_std: Tensor | None, squash: bool) -> distributions.Distribution:
    if not squash:
        assert log_std is not None
        return distributions.Independent(distributions.Normal(parameters, log_std.double().exp()), 1)
    mean, log_std = parameters.chunk(2, -1)
    low, high = (torch.as_tensor(bound, dtype=torch.float64).reshape(-1) for bound in (space.low, space.high))
    transforms = [
        distributions.TanhTransform(),
        distributions.AffineTransform((high + low) / 2, (high - low) / 2, event_dim=1),
    ]
    base = distributions.Independent(distributions.Normal(mean, log_std.clamp(-5, 2).exp()), 1)
    return distributions.TransformedDistribution(base, transforms, validate_args=False)


@pytest.mark.parametrize("name", list(SPACES))
@pytest.mark.parametrize("squash", [False, True])
def test_against_torch_distributions(name: str, squash: bool) -> None:
    torch.manual_seed(0)
    space = SPACES[name]
    head = build_head(space, 8, squash=squash, init_gain=0.3, log_std=-0.5)
    parameters = head(torch.randn(4, 10, 8))
    action, log_prob = head.sample(parameters, torch.rand(4, 10, head.noise_size))
    assert action.shape == (4, 10, *space.shape)
    assert action.dtype == torch.float32
    flat = action.double().reshape(4, 10, -1)
    log_std = getattr(head, "log_std", None)
    truth = reference(space, parameters.double(), log_std, squash)
    expected = truth.log_prob(flat)
    evaluated, entropy = head.evaluate(parameters, action)
    for found in (log_prob, head.log_prob(parameters, action), evaluated):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, atol=1e-3 if squash else 1e-5, rtol=1e-4)
    assert torch.equal(entropy, head.entropy(parameters))
    if squash:
        assert all(space.contains(np.asarray(a)) for a in action.detach().flatten(0, 1).numpy())
    else:
        torch.testing.assert_close(entropy.double(), truth.entropy(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("squash", [False, True])
def test_the_mode_is_the_middle(squash: bool) -> None:
    torch.manual_seed(0)
    head = build_head(SPACES["vector"], 8, squash=squash)
    parameters = head(torch.randn(5, 8))
    middle, _ = head.sample(parameters, torch.full((5, 3), 0.5))
    torch.testing.assert_close(head.mode(parameters), middle)


@pytest.mark.parametrize("squash", [False, True])
def test_samples_come_as_often_as_they_should(squash: bool) -> None:
    torch.manual_seed(0)
    head = build_head(Box(-2, 2, (1,)), 4, squash=squash, log_std=-0.3)
    parameters = torch.tensor([0.4, -0.3][: 1 + squash])
    action, _ = head.sample(parameters.expand(20_000, -1), torch.rand(20_000, 1))
    raw = (action / 2).atanh() if squash else action
    shares = distributions.Normal(0.4, math.exp(-0.3)).cdf(raw.detach()).mul(20).long().clamp(0, 19)
    counts = shares.flatten().bincount(minlength=20).float()
    assert ((counts - 1000).square() / 1000).sum() < CHI_SQUARE_999_DF_19


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("u", [0.0, 2.0**-24, 1 - 2.0**-24, 1.0])
def test_extreme_noise_gives_finite_actions(squash: bool, u: float) -> None:
    head = build_head(SPACES["vector"], 4, squash=squash)
    parameters = head(torch.randn(6, 4))
    action, log_prob = head.sample(parameters, torch.full((6, 3), u))
    assert action.isfinite().all()
    assert log_prob.isfinite().all()
    if not squash:
        assert (action - parameters).abs().max() < 5.5


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (1.5, -1.0), (-0.7, 0.8), (0.2, -3.0)])
def test_a_squashed_density_adds_up_to_one(mean: float, log_std: float) -> None:
    head = build_head(Box(-1, 3, (1,)), 4, squash=True).double()
    raw = torch.linspace(-14, 14, 40_001, dtype=torch.float64)
    edges = 1 + 2 * raw.tanh()
    points = ((edges[1:] + edges[:-1]) / 2).unsqueeze(-1)
    parameters = torch.tensor([mean, log_std], dtype=torch.float64).expand(len(points), 2)
    density = head.log_prob(parameters, points).exp()
    assert (density * edges.diff()).sum().item() == pytest.approx(1, abs=1e-3)


def test_a_squashed_density_is_found_again_from_the_action() -> None:
    head = build_head(Box(-2, 2, (1,)), 4, squash=True)
    mean = torch.linspace(-6, 6, 241).unsqueeze(-1)
    parameters = torch.cat([mean, torch.full_like(mean, -1.0)], -1)
    action, log_prob = head.sample(parameters, torch.rand(241, 1))
    torch.testing.assert_close(head.log_prob(parameters, action), log_prob, atol=0.02, rtol=0)


@pytest.mark.parametrize("mean", [0.0, 5.0, 50.0])
def test_actions_on_the_bounds_are_finite(mean: float) -> None:
    head = build_head(Box(-2, 2, (1,)), 4, squash=True)
    parameters = torch.tensor([[mean, 0.0], [-mean, 0.0]], requires_grad=True)
    log_prob, entropy = head.evaluate(parameters, torch.tensor([[2.0], [-2.0]]))
    assert log_prob.isfinite().all()
    assert entropy.isfinite().all()
    sampled, sampled_log_prob = head.sample(parameters, torch.tensor([[0.0], [1 - 2.0**-24]]))
    (log_prob + entropy + sampled_log_prob + sampled.sum(-1)).sum().backward()
    assert parameters.grad is not None
    assert parameters.grad.isfinite().all()


@pytest.mark.parametrize("mean", [0.0, 0.5, 1.0, 3.0])
def test_squashed_entropy_against_the_integral(mean: float) -> None:
    head = build_head(Box(-1, 3, (1,)), 4, squash=True).double()
    raw = torch.linspace(-30, 30, 20_001, dtype=torch.float64).unsqueeze(-1)
    for log_std in (-2.0, -1.0, -0.5, 0.0):
        weight = distributions.Normal(mean, math.exp(log_std)).log_prob(raw).exp().squeeze(-1) * (60 / 20_000)
        log_det = 2 * (math.log(2) - raw - torch.nn.functional.softplus(-2 * raw)).squeeze(-1)
        truth = log_std + 0.5 * math.log(2 * math.pi * math.e) + math.log(2) + (weight * log_det).sum().item()
        found = head.entropy(torch.tensor([mean, log_std], dtype=torch.float64)).item()
        assert found == pytest.approx(truth, abs=0.04)


def test_squashed_entropy_has_a_maximum() -> None:
    head = build_head(Box(-1, 1, (1,)), 4, squash=True)
    log_std = torch.linspace(-3, 2, 51)
    entropy = head.entropy(torch.stack([torch.zeros(51), log_std], -1))
    assert -0.5 < log_std[entropy.argmax()] < 0.2


@pytest.mark.parametrize("squash", [False, True])
def test_samples_can_be_differentiated(squash: bool) -> None:
    torch.manual_seed(0)
    head = build_head(SPACES["vector"], 4, squash=squash, init_gain=1.0)
    action, log_prob = head.sample(head(torch.randn(7, 4)), torch.rand(7, 3))
    (action.square().sum() + log_prob.sum()).backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("squash", [False, True])
def test_gradients_are_those_of_the_definition(squash: bool) -> None:
    torch.manual_seed(0)
    head = build_head(SPACES["vector"], 4, squash=squash).double()
    parameters = torch.randn(5, head.linear.out_features, dtype=torch.float64, requires_grad=True)
    action = torch.rand(5, 3, dtype=torch.float64) * 3 - 1.5
    assert torch.autograd.gradcheck(lambda p: head.log_prob(p, action), parameters)
    if squash:
        assert torch.autograd.gradcheck(head.entropy, parameters)


@pytest.mark.parametrize("squash", [False, True])
def test_the_first_deviation_is_the_one_asked_for(squash: bool) -> None:
    torch.manual_seed(0)
    head = build_head(SPACES["vector"], 64, squash=squash, log_std=-1.0)
    parameters = head(torch.randn(50, 64))
    mean, log_std = parameters.chunk(2, -1) if squash else (parameters, head.get_parameter("log_std"))
    assert mean.abs().max() < 0.1
    assert (log_std + 1).abs().max() < 0.1


def test_squashing_needs_bounds() -> None:
    with pytest.raises(InputError, match=r"need bounds.*turn squash off"):
        build_head(Box(-1, np.inf, (2,)), 4, squash=True)
