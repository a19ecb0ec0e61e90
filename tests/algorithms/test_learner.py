"""Adam on a flat block against torch's own, and the bound on the gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from shoal.algorithms.learner import Adam, SoloLearner
from shoal.api.algorithm import NonFiniteError
from shoal.base.flat import Flat


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


@pytest.mark.parametrize("bound", [0.05, 1e9])
def test_equals_torch(bound: float) -> None:
    ours, theirs = net(), net()
    flat = Flat(ours, gradients=True)
    adam, learner = Adam(flat, lr=1e-2, max_grad_norm=bound), SoloLearner()
    reference = torch.optim.Adam(theirs.parameters(), lr=1e-2, eps=1e-5)
    for step in range(20):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        norm = learner.step(ours(x).square().mean(), adam)
        reference.zero_grad()
        theirs(x).square().mean().backward()
        assert norm == pytest.approx(float(nn.utils.clip_grad_norm_(theirs.parameters(), bound)), rel=1e-4)
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-4)


def test_state_goes_on() -> None:
    one, two = (Adam(Flat(net(), gradients=True), lr=1e-2, max_grad_norm=1.0) for _ in range(2))
    for adam in (one, two):
        assert adam.flat.gradients is not None
        adam.flat.gradients.fill_(0.1)
    one.apply()
    two.flat.load(one.flat.block)
    two.load_state_dict({name: value.clone() for name, value in one.state_dict().items()})
    one.apply()
    two.apply()
    assert torch.equal(one.flat.parameters, two.flat.parameters)


def test_a_loss_that_is_not_finite_is_refused() -> None:
    module = net()
    adam = Adam(Flat(module, gradients=True), lr=1e-2, max_grad_norm=1.0)
    before = adam.flat.parameters.clone()
    with pytest.raises(NonFiniteError, match="gradient's norm is nan"):
        SoloLearner().step(module(torch.full((1, 3), float("nan"))).sum(), adam)
    assert torch.equal(before, adam.flat.parameters)


def test_statistics_lie_in_one_block_that_can_be_moved() -> None:
    one, two = (Adam(Flat(net(), gradients=True), lr=1e-2, max_grad_norm=1.0) for _ in range(2))
    for adam in (one, two):
        assert adam.flat.gradients is not None
        adam.flat.gradients.fill_(0.1)
    one.apply()
    one.statistics.adopt(torch.zeros_like(one.statistics.block), fill=True)
    one.apply()
    two.apply()
    two.apply()
    assert torch.equal(one.flat.parameters, two.flat.parameters), "moved, not changed"
    two.statistics.adopt(one.statistics.block, fill=False)
    two.apply()
    assert {name: value.shape for name, value in one.state_dict().items()} == {
        "mean": one.flat.parameters.shape,
        "square": one.flat.parameters.shape,
        "steps": torch.Size([]),
    }
    assert float(one.state_dict()["steps"]) == 3.0, "what two blocks of one memory remember is one"


def test_whole_numbers_have_a_float64_mean() -> None:
    assert SoloLearner().mean(torch.tensor([1, 2])).dtype == torch.float64
    value = torch.tensor(1.5)
    assert SoloLearner().mean(value) is value
