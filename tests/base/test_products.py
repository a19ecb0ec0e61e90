"""Products by oneDNN are those of torch, and so are the gradients of wide layers."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from shoal.base import products
from shoal.base.products import LONG, ONEDNN, affine, by_onednn, product

either = pytest.mark.parametrize("onednn", sorted({False, ONEDNN}))


@either
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 37])
def test_products_are_those_of_torch(onednn: bool, relu: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "ONEDNN", onednn)
    monkeypatch.setattr(products, "SHORT", 1)
    one, other, bias = torch.randn(rows, 24), torch.randn(24, 16), torch.randn(16)
    wanted = one @ other + bias
    for left in (one, one.t().contiguous().t()):
        for right in (other, other.t().contiguous().t()):
            found = product(left, right, bias, relu=relu)
            torch.testing.assert_close(found, wanted.relu() if relu else wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(product(one.t(), one), one.t() @ one, rtol=1e-5, atol=1e-5)


@either
@pytest.mark.parametrize("shape", [(128, 256), (4, 32, 256)])
def test_wide_layers_learn_what_torch_learns(
    onednn: bool, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "ONEDNN", onednn)
    taken = []
    monkeypatch.setattr(products, "by_onednn", lambda *parts, **relu: taken.append(parts) or by_onednn(*parts, **relu))
    said = []
    for layer in (affine, functional.linear):
        torch.manual_seed(1)
        x = torch.randn(shape, requires_grad=True)
        weight, bias = torch.randn(256, 256, requires_grad=True), torch.randn(256, requires_grad=True)
        assert x.numel() * 256 >= LONG
        out = layer(x, weight, bias)
        out.sin().sum().backward()
        said.append([out, x.grad, weight.grad, bias.grad])
    assert len(taken) == (3 if onednn else 0)
    for ours, theirs in zip(*said, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def test_for_who_acts_the_layer_decides_and_not_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(products, "by_onednn", lambda *parts: taken.append(parts) or by_onednn(*parts))
    x, bias = torch.randn(2, 128, 512), torch.zeros(512)
    for width in (256, 512):
        weight = torch.randn(512, width, requires_grad=True)
        for rows in (x[:1, :1, :width], x[..., :width]):
            with torch.no_grad():
                torch.testing.assert_close(
                    affine(rows, weight, bias), functional.linear(rows, weight, bias), rtol=1e-4, atol=1e-3
                )
        assert len(taken) == (0 if width == 256 or not ONEDNN else 2)


def test_who_rounds_takes_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "by_onednn", None)
    x, weight, bias = torch.randn(256, 512), torch.randn(512, 512, requires_grad=True), torch.zeros(512)
    with torch.autocast("cpu", torch.bfloat16):
        assert affine(x, weight, bias).dtype == torch.bfloat16
        with torch.no_grad():
            assert affine(x, weight, bias).dtype == torch.bfloat16
    assert affine(x[:2], weight, bias).requires_grad
