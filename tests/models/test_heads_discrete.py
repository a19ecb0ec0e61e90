"""Heads for choices, against torch.distributions and counted samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor, distributions

from shoal.base.errors import InputError
from shoal.models.heads import Head, build_head

SPACES = {
    "discrete": Discrete(5),
    "shifted": Discrete(3, start=-1),
    "even": MultiDiscrete([3, 3]),
    "uneven": MultiDiscrete([2, 4, 3]),
    "table": MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, 3]]),
    "bits": MultiBinary(4),
    "bit table": MultiBinary((2, 2)),
}
CHI_SQUARE_999 = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 11: 31.26, 15: 37.70, 23: 49.73}
"""99.9 % points by degrees of freedom."""

EDGES = (0.0, 2.0**-24, 0.5, 1 - 2.0**-24)


def width(head: Head) -> int:
    return head.linear.out_features


def sizes_of(space: Any) -> list[int]:
    return [int(space.n)] if isinstance(space, Discrete) else space.nvec.reshape(-1).tolist()


def start_of(space: Any) -> Tensor:
    return torch.as_tensor(space.start).reshape(-1)


def masked(parameters: Tensor, mask: Tensor | None) -> Tensor:
    return parameters if mask is None else parameters.masked_fill(~mask, -torch.inf)


def reference(space: Any, parameters: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """log_prob and entropy, one component after the other, with torch.distributions; probabilities of zero are zero."""
    logits = masked(parameters, mask).double()
    if isinstance(space, MultiBinary):
        probabilities = logits.sigmoid()
        bits = action.flatten(parameters.dim() - 1).double()
        each = distributions.Bernoulli(probabilities, validate_args=False)
        return each.log_prob(bits).sum(-1), each.entropy().sum(-1)
    index = action.reshape(*parameters.shape[:-1], -1) - start_of(space)
    log_prob, entropy = torch.zeros(2, *parameters.shape[:-1], dtype=torch.float64)
    for k, part in enumerate(logits.split(sizes_of(space), -1)):
        each = distributions.Categorical(probs=part.softmax(-1))
        log_prob = log_prob + each.log_prob(index[..., k])
        entropy = entropy + each.entropy()
    return log_prob, entropy


def some_mask(space: Any, rows: int) -> Tensor:
    """Random, but at least one choice of each component is allowed."""
    if isinstance(space, MultiBinary):
        return torch.rand(rows, space.shape[0] if len(space.shape) == 1 else 4) < 0.6
    parts = []
    for size in sizes_of(space):
        part = torch.rand(rows, size) < 0.5
        part[torch.arange(rows), torch.randint(size, (rows,))] = True
        parts.append(part)
    return torch.cat(parts, -1)


@pytest.mark.parametrize("name", list(SPACES))
@pytest.mark.parametrize("with_mask", [False, True])
def test_against_torch_distributions(name: str, with_mask: bool) -> None:
    torch.manual_seed(0)
    space = SPACES[name]
    head = build_head(space, 8, init_gain=2.0)
    parameters = head(torch.randn(60, 8))
    mask = some_mask(space, 60) if with_mask else None
    action, log_prob = head.sample(parameters, torch.rand(60, head.noise_size), mask)
    assert action.dtype == torch.int64
    assert all(space.contains(a.numpy().astype(space.dtype)) for a in action)
    expected_log_prob, expected_entropy = reference(space, parameters, action, mask)
    evaluated = head.evaluate(parameters, action, mask)
    for found, expected in (
        (log_prob, expected_log_prob),
        (head.log_prob(parameters, action, mask), expected_log_prob),
        (evaluated[0], expected_log_prob),
        (head.entropy(parameters, mask), expected_entropy),
        (evaluated[1], expected_entropy),
    ):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
    assert bool((log_prob > -50).all()), "a forbidden action was taken"


@pytest.mark.parametrize("name", list(SPACES))
def test_two_leading_axes(name: str) -> None:
    torch.manual_seed(0)
    space = SPACES[name]
    head = build_head(space, 8, init_gain=1.0)
    parameters, noise, mask = head(torch.randn(3, 4, 8)), torch.rand(3, 4, head.noise_size), some_mask(space, 12)
    mask = mask.view(3, 4, -1)
    action, log_prob = head.sample(parameters, noise, mask)
    assert action.shape == (3, 4, *space.shape)
    flat = head.sample(parameters.flatten(0, 1), noise.flatten(0, 1), mask.flatten(0, 1))
    assert torch.equal(action.flatten(0, 1), flat[0])
    assert torch.equal(log_prob.flatten(), flat[1])
    assert head.mode(parameters, mask).shape == action.shape
    assert head.entropy(parameters, mask).shape == (3, 4)


@pytest.mark.parametrize("name", ["discrete", "even", "uneven", "bits"])
def test_samples_come_as_often_as_they_should(name: str) -> None:
    torch.manual_seed(0)
    space = SPACES[name]
    head = build_head(space, 4)
    parameters = torch.randn(width(head))
    count = 20_000
    noise = torch.rand(count, head.noise_size)
    action, _ = head.sample(parameters.expand(count, -1), noise)
    sizes = [2] * 4 if isinstance(space, MultiBinary) else sizes_of(space)
    joint = torch.cartesian_prod(*(torch.arange(size) for size in sizes)).reshape(-1, len(sizes))
    shaped = joint.reshape(-1, *space.shape)
    expected = head.log_prob(parameters.expand(len(joint), -1), shaped).exp() * count
    torch.testing.assert_close(expected.sum().item(), float(count), rtol=1e-5, atol=0)
    code = torch.tensor([1, *sizes[:0:-1]]).cumprod(0).flip(0)
    order = (action.reshape(count, -1) * code).sum(-1).bincount(minlength=len(joint))
    chi_square = ((order - expected).square() / expected).sum().item()
    freedom = len(joint) - 1
    assert chi_square < (CHI_SQUARE_999.get(freedom) or 2 * freedom), chi_square


@pytest.mark.parametrize("u", EDGES)
@pytest.mark.parametrize("size", [2, 3, 7, 64, 1000])
def test_what_cannot_be_is_never_taken(u: float, size: int) -> None:
    torch.manual_seed(size)
    head = build_head(Discrete(size), 4)
    rows = 300
    parameters = torch.randn(rows, size) * torch.rand(rows, 1) * 50
    impossible = torch.rand(rows, size) < 0.5
    impossible[torch.arange(rows), torch.randint(size, (rows,))] = False
    noise = torch.full((rows, 1), u)
    for logits, mask in ((parameters, ~impossible), (parameters.masked_fill(impossible, -torch.inf), None)):
        action, log_prob = head.sample(logits, noise, mask)
        assert not impossible.gather(1, action.unsqueeze(1)).any()
        assert log_prob.isfinite().all()
        assert not impossible.gather(1, head.mode(logits, mask).unsqueeze(1)).any()


@pytest.mark.parametrize("u", EDGES)
def test_forbidden_bits_stay_zero(u: float) -> None:
    head = build_head(MultiBinary(3), 4)
    mask = torch.tensor([[True, False, True]])
    parameters = torch.tensor([[200.0, 200.0, -200.0]])
    action, log_prob = head.sample(parameters, torch.full((1, 3), u), mask)
    assert action.tolist() == [[1, 0, 0]]
    assert log_prob.item() == pytest.approx(0)
    assert head.mode(parameters, mask).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("name", list(SPACES))
def test_where_nothing_is_allowed_there_are_still_numbers(name: str) -> None:
    torch.manual_seed(0)
    space = SPACES[name]
    head = build_head(space, 4, init_gain=1.0)
    features = torch.randn(50, 4)
    mask = torch.zeros(50, width(head), dtype=torch.bool)
    parameters = head(features)
    action, log_prob = head.sample(parameters, torch.rand(50, head.noise_size), mask)
    assert all(space.contains(a.numpy().astype(space.dtype)) for a in action)
    evaluated = head.evaluate(parameters, action, mask)
    assert all(value.isfinite().all() for value in (log_prob, *evaluated))
    sum(value.sum() for value in evaluated).backward()  # type: ignore[union-attr]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())


@pytest.mark.parametrize("name", list(SPACES))
@pytest.mark.parametrize("with_mask", [False, True])
def test_gradients_are_those_of_the_definition(name: str, with_mask: bool) -> None:
    torch.manual_seed(0)
    space = SPACES[name]
    head = build_head(space, 8, init_gain=2.0).double()
    parameters = head(torch.randn(20, 8, dtype=torch.float64)).detach().requires_grad_()
    mask = some_mask(space, 20) if with_mask else None
    action, _ = head.sample(parameters.detach(), torch.rand(20, head.noise_size, dtype=torch.float64), mask)
    log_prob, entropy = head.evaluate(parameters, action, mask)
    found = torch.autograd.grad((log_prob + 0.3 * entropy).sum(), parameters)[0]
    assert found.isfinite().all()
    shift = torch.randn_like(parameters) * 1e-5
    up, down = (head.evaluate(parameters.detach() + sign * shift, action, mask) for sign in (1, -1))
    difference = sum(scale * (a - b).sum() for scale, a, b in zip((1, 0.3), up, down, strict=True)) / 2
    assert (found * shift).sum().item() == pytest.approx(float(difference), rel=1e-4)
    if mask is not None:
        assert not found[~mask].any()


@pytest.mark.parametrize("name", ["discrete", "uneven", "bits"])
def test_nan_is_carried_not_thrown(name: str) -> None:
    head = build_head(SPACES[name], 4)
    parameters = torch.full((2, width(head)), torch.nan)
    action, log_prob = head.sample(parameters, torch.rand(2, head.noise_size))
    assert all(SPACES[name].contains(a.numpy().astype(SPACES[name].dtype)) for a in action)
    assert log_prob.isnan().all()


def test_the_first_policy_is_nearly_uniform() -> None:
    torch.manual_seed(0)
    head = build_head(Discrete(4), 64)
    probabilities = head(torch.randn(100, 64)).softmax(-1)
    assert (probabilities - 0.25).abs().max() < 0.02
    assert not head.linear.bias.any()


@pytest.mark.parametrize("space", [Dict({"a": Discrete(2)}), Box(0, 255, (2,), dtype="uint8")])
def test_other_spaces_are_refused(space: Any) -> None:
    with pytest.raises(InputError, match=r"no policy acts in .*wrap the environment"):
        build_head(space, 4)
