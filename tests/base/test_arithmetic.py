"""How networks compute: found, told, and float32 outside whatever is inside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from shoal.base.arithmetic import PLAIN, Arithmetic, Network, arithmetic_of, by_hand, compute_by, networks_of
from shoal.base.errors import InputError
from shoal.testing.device import DEVICE

BF16 = Arithmetic(bf16=True)
HERE = torch.device("cpu")


class Body(Network):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.inner = nn.Linear(16, 32), nn.Linear(32, 8)
        self.seen: list[torch.dtype] = []

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor] | None]:
        y = self.layer(x).tanh()
        self.seen.append(y.dtype)
        return self.inner(y), {"state": y}


class Empty(Network):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.nothing = Body(), nn.Linear(8, 2), Empty()

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.head(self.body(x, None)[0])
        return values


@pytest.fixture
def matmul_precision() -> Iterator[None]:
    before, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before)
    torch.backends.cudnn.allow_tf32 = cudnn


@pytest.mark.parametrize("device", [HERE, DEVICE], ids=str)
def test_bf16_is_inside_and_float32_outside(device: torch.device) -> None:
    policy, x = Policy(), torch.randn(40, 16)
    exact = policy(x)
    policy.to(device)
    assert compute_by(policy, BF16) == 1
    values = policy(x.to(device))
    assert policy.body.seen == [torch.float32, torch.bfloat16]
    assert values.dtype == torch.float32
    features, state = policy.body(x.to(device), state=None)
    assert (features.dtype, state["state"].dtype) == (torch.float32, torch.float32)
    error = (values.cpu() - exact).abs().max() / exact.abs().max()
    assert 1e-5 < error < 2e-2, "eight bits"
    values.square().mean().backward()
    assert {parameter.grad.dtype for parameter in policy.parameters() if parameter.grad is not None} == {torch.float32}
    assert policy.body.layer.weight.dtype == torch.float32
    assert not torch.is_autocast_enabled(device.type), "it ends with the network"


def test_the_pretend_device_rounds_as_the_cpu_does() -> None:
    results = []
    for device in (HERE, DEVICE):
        policy = Policy().to(device)
        compute_by(policy, BF16)
        loss = policy(torch.linspace(-1, 1, 640).view(40, 16).to(device)).square().mean()
        loss.backward()
        results.append([loss.detach().cpu(), *(p.grad.cpu() for p in policy.parameters() if p.grad is not None)])
    assert len(results[0]) == 7
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_plain_is_what_it_was_to_the_bit() -> None:
    policy, x = Policy(), torch.randn(7, 16)
    before = policy(x)
    compute_by(policy, BF16)
    assert not torch.equal(policy(x), before)
    compute_by(policy, PLAIN)
    assert torch.equal(policy(x), before)


def test_networks_are_the_outermost_with_parameters() -> None:
    policy = Policy()
    assert list(networks_of(policy)) == [policy.body]
    outer = nn.Sequential(policy, Empty())
    assert list(networks_of(outer)) == [policy.body]


def test_one_rule_for_what_is_written_by_hand() -> None:
    here, there = torch.zeros(1), torch.zeros(1, device=DEVICE)
    assert by_hand(here)
    assert not by_hand(there)
    assert not by_hand(here, BF16)


@pytest.mark.usefixtures("matmul_precision")
def test_tf32_is_set_where_it_is_known() -> None:
    torch.set_float32_matmul_precision("highest")
    assert arithmetic_of("tf32", HERE) is PLAIN
    assert torch.get_float32_matmul_precision() == "highest", "the CPU keeps its bits"
    assert arithmetic_of("tf32", torch.device("cuda:1")) is PLAIN
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cudnn.allow_tf32
    assert arithmetic_of("fp32", torch.device("cuda")) is PLAIN
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.allow_tf32, "torch's own default would round convolutions"


def test_a_device_without_bf16_is_one_line() -> None:
    assert arithmetic_of("bf16", HERE) == BF16 == arithmetic_of("bf16", DEVICE)
    assert arithmetic_of("fp32", HERE) is PLAIN
    with pytest.raises(InputError, match=r"^placement.precision = 'bf16': meta has no bfloat16; choose fp32$"):
        arithmetic_of("bf16", torch.device("meta"))
