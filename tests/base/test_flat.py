"""One block for all parameters and buffers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from shoal.base.flat import Flat
from shoal.testing.device import DEVICE, counted


def module() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    net.register_buffer("count", torch.tensor(7, dtype=torch.int64))
    return net


def test_nothing_changes_but_the_place() -> None:
    plain, laid = module(), module()
    flat = Flat(laid, gradients=True)
    for (name, old), new in zip(plain.state_dict().items(), laid.state_dict().values(), strict=True):
        assert torch.equal(old, new), name
    assert flat.parameters.numel() == sum(p.numel() for p in plain.parameters())


def test_gradients_land_in_one_array() -> None:
    plain, laid = module(), module()
    flat = Flat(laid, gradients=True)
    x = torch.randn(4, 3)
    for net in (plain, laid):
        net(x).square().sum().backward()
    assert flat.gradients is not None
    expected = torch.cat([p.grad.flatten() for p in plain.parameters() if p.grad is not None])
    assert torch.allclose(flat.gradients, expected)


def test_a_version_is_one_copy() -> None:
    teacher, pupil = module(), module()
    source, target = Flat(teacher, gradients=True), Flat(pupil, gradients=False)
    source.parameters.add_(1.0)
    teacher.get_buffer("count").fill_(9)
    teacher(torch.randn(6, 3))  # moves the batch statistics
    target.load(source.block)
    for (name, old), new in zip(teacher.state_dict().items(), pupil.state_dict().values(), strict=True):
        assert torch.equal(old, new), name
    assert not any(p.requires_grad for p in pupil.parameters())


def test_a_copy_of_a_laid_out_module_is_its_own() -> None:
    net = module()
    flat = Flat(net, gradients=True)
    twin = copy.deepcopy(net)
    Flat(twin, gradients=False)
    flat.parameters.zero_()
    assert any(p.abs().sum() > 0 for p in twin.parameters())


def test_load_state_dict_writes_through() -> None:
    net, other = module(), module()
    flat = Flat(net, gradients=True)
    with torch.no_grad():
        other[0].weight.fill_(3.0)
    net.load_state_dict(other.state_dict())
    assert torch.equal(flat.parameters[:15], torch.full((15,), 3.0))


def test_a_block_given_by_the_caller_is_filled_and_lived_in() -> None:
    plain, laid = module(), module()
    flat = Flat(laid, gradients=True)
    gradients, block = flat.gradients, torch.full((flat.nbytes,), 255, dtype=torch.uint8)
    flat.adopt(block, fill=True)
    for (name, old), new in zip(plain.state_dict().items(), laid.state_dict().values(), strict=True):
        assert torch.equal(old, new), name
        assert new.untyped_storage().data_ptr() == block.untyped_storage().data_ptr(), name
    assert flat.block is block
    assert flat.gradients is gradients
    laid(torch.randn(4, 3)).square().sum().backward()
    assert gradients is not None
    assert gradients.any()
    flat.parameters.zero_()
    assert not block[: flat.parameters.nbytes].any()


def test_two_modules_in_one_block_are_one() -> None:
    one, two = module(), module()
    first, second = Flat(one, gradients=True), Flat(two, gradients=True)
    first.parameters.add_(1.0)
    second.adopt(first.block, fill=False)
    assert torch.equal(two[0].weight, one[0].weight), "what is there is taken over"
    second.parameters.mul_(2.0)
    two.get_buffer("count").fill_(3)
    assert torch.equal(one[0].weight, two[0].weight)
    assert int(one.get_buffer("count")) == 3
    two(torch.randn(4, 3)).sum().backward()
    assert first.gradients is not None
    assert not first.gradients.any(), "gradients are nobody else's"


def test_a_block_that_does_not_fit_is_refused() -> None:
    flat = Flat(module(), gradients=True)
    for wrong in (torch.zeros(flat.nbytes + 1, dtype=torch.uint8), torch.zeros(flat.nbytes)):
        with pytest.raises(ValueError, match=rf"uint8 \[{flat.nbytes}\] is needed, got {wrong.dtype}"):
            flat.adopt(wrong, fill=True)


def test_a_module_on_another_device_has_the_same_numbers_and_ties() -> None:
    plain, laid = module(), module()
    laid.add_module("tied", laid[0])
    flat = Flat(laid, gradients=True)
    flat.to(DEVICE)
    assert laid.get_submodule("tied").weight is laid[0].weight
    assert {tensor.device for tensor in (*laid.parameters(), *laid.buffers())} == {DEVICE}
    for (name, old), new in zip(plain.state_dict().items(), laid.state_dict().values(), strict=False):
        assert torch.equal(old, new.cpu()), name
    laid[0](torch.ones(2, 3, device=DEVICE)).sum().backward()
    assert flat.gradients is not None
    assert flat.gradients[:15].tolist() == [2.0] * 15
    flat.to(torch.device("cpu"))
    assert laid[0].weight.device.type == "cpu"
    assert torch.equal(laid[0].weight, plain[0].weight)


def test_versions_of_a_device_come_and_go_in_one_copy() -> None:
    flat, other = Flat(module(), gradients=False), Flat(module(), gradients=False)
    flat.parameters.add_(1.0)
    expected = flat.block.clone()
    for each in (flat, other):
        each.to(DEVICE)
    with counted() as transfers:
        version = flat.version()
    assert (transfers.copies, transfers.to_cpu) == (1, flat.nbytes)
    assert np.array_equal(version, expected.numpy())
    assert not other.read(lambda block: False)
    with counted() as transfers:
        assert other.read(lambda block: bool(np.copyto(block, version) is None))
    assert (transfers.copies, transfers.to_device) == (1, flat.nbytes)
    assert torch.equal(other.block.cpu(), expected)
