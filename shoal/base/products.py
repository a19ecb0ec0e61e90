"""Products of matrices of float32 on the CPU: by oneDNN where torch brings it, else by the library behind `torch.mm`.

oneDNN uses all that a processor can do. The other library does so on some makes alone, and takes twice as long on others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from shoal.base.arithmetic import by_hand

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
WIDE = 1 << 18
"""Weights of a layer from which its product takes longer than the call."""
SHORT = 1 << 22
"""Multiplications of a product below which the other library is as quick, and its call quicker."""
LONG = 1 << 23
"""Multiplications of a layer from which its gradients are worth a function of their own."""


def product(one: Tensor, other: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor:
    """Of two matrices, and `bias` to each row; however they lie in memory."""
    if ONEDNN and one.numel() * other.shape[1] >= SHORT:
        return by_onednn(one, other, bias, relu=relu)
    found = torch.mm(one, other) if bias is None else torch.addmm(bias, one, other)
    return found.relu_() if relu else found


def by_onednn(one: Tensor, other: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(one, other.t(), bias, "relu" if relu else "none", [], "")


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`functional.linear`, in less time where it is wide.

    Who acts gets the bits of a row whatever else is asked: there the layer alone decides, and not how many rows there are.
    """
    learned = torch.is_grad_enabled() and weight.requires_grad
    wide = x.numel() * len(weight) >= LONG if learned else weight.numel() >= WIDE
    if not (wide and ONEDNN and by_hand(x) and x.dtype == torch.float32) or torch.is_autocast_enabled("cpu"):
        return functional.linear(x, weight, bias)
    rows = x.flatten(0, -2)
    out = _Affine.apply(rows, weight, bias) if learned else by_onednn(rows, weight.t(), bias)
    return out.unflatten(0, x.shape[:-1])


class _Affine(torch.autograd.Function):
    """`[N, in]`, `[out, in]`, `[out]` -> `[N, out]`"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight.t(), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        by_input = product(up, weight) if ctx.needs_input_grad[0] else None
        return by_input, product(up.t(), x), up.sum(0)
