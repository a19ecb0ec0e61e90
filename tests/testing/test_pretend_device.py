"""The pretend device: what an accelerator refuses it refuses, what would wait there is counted, and its numbers are the CPU's."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from shoal.testing.device import DEVICE, PretendTensor, counted, synchronize


def test_factories_and_operators_stay_on_the_device() -> None:
    made = [
        torch.zeros(3, device=DEVICE), torch.tensor([1.0, 2.0], device="pretend"), torch.arange(4, device=DEVICE),
        torch.eye(2, device=DEVICE), torch.full((2,), 3.0, device=DEVICE), torch.empty(2, device=DEVICE),
        torch.rand(2, device=DEVICE), torch.linspace(0, 1, 3, device=DEVICE),
    ]  # fmt: skip
    assert all(isinstance(each, PretendTensor) and each.device == DEVICE for each in made)
    results = [made[0] * 2.0, made[1].new_zeros(2), torch.zeros_like(made[2]), torch.stack([made[0], made[0]]).amax(0)]
    assert {each.device for each in results} == {DEVICE}
    assert {part.device for part in made[2].split(2)} == {DEVICE}
    assert torch.zeros_like(made[0], device="cpu").device.type == "cpu"
    assert torch.zeros_like(torch.zeros(2), device=DEVICE).device == DEVICE


@pytest.mark.parametrize(
    "mix",
    [
        lambda own, other: own + other,
        lambda own, other: other + own,
        lambda own, other: own + torch.tensor(1.0),
        lambda own, other: torch.stack([own, other]),
        lambda own, other: own.add_(other),
        lambda own, other: other.mul_(own),
        lambda own, other: own[torch.tensor([0, 1])],
        lambda own, other: torch.where(own > 0, own, other),
        lambda own, other: nn.functional.linear(own, torch.zeros(1, 3)),
    ],
)
def test_mixing_raises(mix: Callable[[Tensor, Tensor], Tensor]) -> None:
    with pytest.raises(RuntimeError, match="on the same device"):
        mix(torch.zeros(3, device=DEVICE), torch.zeros(3))


def test_numpy_is_refused() -> None:
    with pytest.raises(TypeError, match="copy it to the CPU"):
        torch.zeros(3, device=DEVICE).numpy()


# ---------------------------------------------------------------- counts


WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: (x > 0).nonzero(),
    "boolean mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "synchronize": lambda x: synchronize(),
    "to device": lambda x: torch.zeros(3).to(DEVICE),
}


@pytest.mark.parametrize("call", WAITS)
def test_what_waits_is_counted(call: str) -> None:
    x = torch.tensor([1.0, -2.0, 3.0], device=DEVICE)
    with counted() as transfers:
        WAITS[call](x)
    assert transfers.waits == {call: 1}


def test_float_bool_and_tolist_wait_too() -> None:
    x = torch.tensor([1.0, -2.0], device=DEVICE)
    with counted() as transfers:
        numbers = float(x[0]), bool(x.any()), x.tolist()
        assert x[0] > 0  # decided by the CPU
    assert numbers == (1.0, True, [1.0, -2.0])
    assert transfers.waits == {"item": 3, "cpu": 1}
    assert transfers.to_cpu == 4 + 1 + 8 + 1


def test_what_does_not_wait_is_not_counted() -> None:
    x = torch.arange(6.0).to(DEVICE)
    rows = torch.tensor([0, 2]).to(DEVICE)
    with counted() as transfers:
        y = (x.view(2, 3) * 2).sum(1).clamp(max=4.0)
        found = [x.index_select(0, rows), x[rows], torch.where(x > 2, x, 0.0), torch.nonzero_static(x > 2, size=3)]
        y.square_()
    assert (transfers.synchronising, transfers.nbytes, transfers.copies) == (0, 0, 0)
    assert found[-1].tolist() == [[3], [4], [5]]


def test_bytes_are_counted_both_ways() -> None:
    x = torch.zeros(10)
    with counted() as transfers:
        there = x.to(DEVICE, non_blocking=True)
        there.to(torch.float64).cpu()
        there.copy_(x, non_blocking=True)
    assert (transfers.to_device, transfers.to_cpu, transfers.copies) == (80, 80, 3)
    assert transfers.waits == {"cpu": 1}
    assert transfers.nbytes == 160


def test_counts_nest() -> None:
    with counted() as outer:
        torch.zeros(1, device=DEVICE).item()
        with counted() as inner:
            torch.zeros(1, device=DEVICE).item()
    torch.zeros(1, device=DEVICE).item()
    assert (outer.synchronising, inner.synchronising) == (2, 1)


def test_a_copy_that_does_not_wait_arrives_with_the_next_wait() -> None:
    x = torch.tensor([1.0, 2.0], device=DEVICE)
    late, target = x.to("cpu", non_blocking=True), torch.zeros(2)
    target.copy_(x, non_blocking=True)
    x.zero_()  # behind the copies, in the device's order
    assert target.tolist() != [1.0, 2.0]
    assert late.tolist() != [1.0, 2.0]
    synchronize()
    assert target.tolist() == late.tolist() == [1.0, 2.0]


# ---------------------------------------------------------------- numbers


def test_learning_is_the_cpus_to_the_bit() -> None:
    torch.manual_seed(0)
    here = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, 2))
    there = copy.deepcopy(here).to(DEVICE)
    x = torch.randn(5, 1, 8, 8)
    for _ in range(2):  # gradients are accumulated where they lie
        here(x).square().mean().backward()
        there(x.to(DEVICE)).square().mean().backward()
    for own, other in zip(here.parameters(), there.parameters(), strict=True):
        assert other.device == DEVICE
        assert other.grad is not None
        assert own.grad is not None
        assert torch.equal(own.grad, other.grad.cpu())


def test_views_share_memory_with_what_they_are_cut_from() -> None:
    block = torch.zeros(32, dtype=torch.uint8, device=DEVICE)
    view = block[:16].view(torch.float32).view(2, 2)
    parameter = nn.Parameter(torch.ones(2, 2, device=DEVICE))
    parameter.data = view
    view.fill_(2.0)
    assert parameter.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert isinstance(parameter, nn.Parameter)
    assert parameter.data_ptr() == block.data_ptr()


def test_a_deep_copy_is_on_the_device_and_apart() -> None:
    model = nn.Linear(2, 1).to(DEVICE)
    other = copy.deepcopy(model)
    with torch.no_grad():
        model.weight.zero_()
    assert isinstance(other.weight, nn.Parameter)
    assert other.weight.device == DEVICE
    assert other.weight.abs().sum().item() > 0
