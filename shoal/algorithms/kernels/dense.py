"""Dense layers, tanh or relu, under a linear output, forwards and backwards, in torch without a graph.

For networks of any width: products go to the threads that torch has, and what lies between them stays where it is from one
update to the next, in the cache. Where every call counts numpy is faster: `mlp.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

ACTIVATIONS: dict[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = {
    torch.relu: torch.relu_,
    torch.tanh: torch.tanh_,
}
"""Those whose slopes are known by what came out, each with its way to work in place."""


class Layer(NamedTuple):
    """One layer as it lies in memory, and where its gradients go: None where nobody learns."""

    weight: Tensor
    """`[in, out]`"""
    bias: Tensor
    by_weight: Tensor | None
    by_bias: Tensor | None


class Dense:
    """`layers` says where they lie, and is asked again when `first`, one of their parameters, has moved: into shared memory."""

    def __init__(
        self, layers: Callable[[], Sequence[Layer]], first: Tensor, activation: Callable[[Tensor], Tensor]
    ) -> None:
        self._find, self._first, self._lies_at = layers, first, -1
        self._layers: Sequence[Layer] = ()
        self._activate = ACTIVATIONS[activation]
        self._slope = _relu_slope if activation is torch.relu else _tanh_slope
        self._room: dict[int, list[Tensor]] = {}
        self._ones: dict[int, Tensor] = {}

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """`[N, in]` -> `[N, out]`, good until the next call with as many rows."""
        if self._first.data_ptr() != self._lies_at:
            self._layers, self._lies_at = self._find(), self._first.data_ptr()
        self._seen = [x, *self._room_for(len(x))]
        last = len(self._layers) - 1
        for i, layer in enumerate(self._layers):
            out = torch.addmm(layer.bias, self._seen[i], layer.weight, out=self._seen[i + 1])
            if i < last:
                self._activate(out)
        return self._seen[-1]

    @torch.no_grad()
    def backward(self, up: Tensor) -> None:
        """Add to the gradients of all weights and biases. `up`: the loss's derivative by what the last forward gave, `[N, out]`."""
        ones = self._ones_for(len(up))
        for i in reversed(range(len(self._layers))):
            layer, seen = self._layers[i], self._seen[i]
            assert layer.by_weight is not None
            assert layer.by_bias is not None
            layer.by_weight.addmm_(seen.t(), up)
            layer.by_bias.addmv_(up.t(), ones)
            if i:
                up = self._slope(torch.mm(up, layer.weight.t()), seen)

    @torch.no_grad()
    def by_input(self, up: Tensor, since: int) -> Tensor:
        """The derivative by what the last forward was given, from column `since` on. Rows of `up` that are zero cost nothing."""
        rows = up.any(1).nonzero().squeeze(1)
        some = len(rows) < len(up)
        up = up.index_select(0, rows) if some else up
        for i in reversed(range(len(self._layers))):
            weight = self._layers[i].weight
            up = torch.mm(up, weight.t() if i else weight[since:].t())
            if i:
                seen = self._seen[i]
                up = self._slope(up, seen.index_select(0, rows) if some else seen)
        return up.new_zeros(len(self._seen[0]), up.shape[1]).index_copy_(0, rows, up) if some else up

    @property
    def width(self) -> int:
        """Numbers that go in, per row."""
        return len(self._layers[0].weight)

    def _room_for(self, rows: int) -> list[Tensor]:
        """Kept: updates have batches of one length, or two."""
        if rows not in self._room:
            self._room[rows] = [layer.weight.new_empty(rows, layer.weight.shape[1]) for layer in self._layers]
        return self._room[rows]

    def _ones_for(self, rows: int) -> Tensor:
        """To add up rows with: a product with them is quicker than a sum."""
        if rows not in self._ones:
            self._ones[rows] = self._layers[0].weight.new_ones(rows)
        return self._ones[rows]


def _relu_slope(up: Tensor, seen: Tensor) -> Tensor:
    """Through the activation that gave `seen`, in place."""
    torch.ops.aten.threshold_backward.grad_input(up, seen, 0, grad_input=up)
    return up


def _tanh_slope(up: Tensor, seen: Tensor) -> Tensor:
    torch.ops.aten.tanh_backward.grad_input(up, seen, grad_input=up)
    return up
