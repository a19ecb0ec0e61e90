"""Dense layers, tanh or relu, under a linear output, forwards and backwards, in torch without a graph.

For networks of any width: products go to the threads that torch has. Where every call counts numpy is faster: `mlp.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from shoal.base.products import product

ACTIVATIONS: dict[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = {
    torch.relu: torch.relu_,
    torch.tanh: torch.tanh_,
}
"""Those whose slopes are known by what came out, each with its way to work in place."""


ROWS = 32
"""Those that are chosen go through in multiples of it, filled up by zeros: oneDNN compiles a product for each number of rows."""


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
        self._activation = activation
        self._slope = _relu_slope if activation is torch.relu else _tanh_slope
        self._ones: dict[int, Tensor] = {}

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """`[N, in]` -> `[N, out]`"""
        self._look()
        self._seen = [x]
        for weight, bias, *_ in self._layers[:-1]:
            self._seen.append(layer_of(self._seen[-1], weight, bias, self._activation))
        return product(self._seen[-1], self._layers[-1].weight, self._layers[-1].bias)

    @torch.no_grad()
    def backward(self, up: Tensor) -> None:
        """Add to the gradients of all weights and biases. `up`: the loss's derivative by what the last forward gave, `[N, out]`,
        or by the first rows of it."""
        ones, rows = self._ones_for(len(up)), slice(0, len(up))
        for i in reversed(range(len(self._layers))):
            layer, seen = self._layers[i], self._seen[i][rows]
            by_weight, by_bias = gradients_of(layer)
            by_weight.add_(product(seen.t(), up))
            by_bias.addmv_(up.t(), ones)
            if i:
                up = self._slope(product(up, layer.weight.t()), seen)

    def _look(self) -> None:
        """Where the layers lie now."""
        if self._first.data_ptr() != self._lies_at:
            self._layers, self._lies_at = self._find(), self._first.data_ptr()

    def _ones_for(self, rows: int) -> Tensor:
        """To add up rows with: a product with them is quicker than a sum."""
        if rows not in self._ones:
            self._ones[rows] = self._first.data.new_ones(rows)
        return self._ones[rows]


class Twins(Dense):
    """Two networks of one shape that see the same, with one number each.

    Layers are `[2, in, out]` and `[2, 1, out]`. The last ones are vectors, and so not worth a product of matrices.
    """

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """`[N, in]` -> `[2, N]`."""
        self._look()
        self._pairs = [[x, x]]
        for weight, bias, *_ in self._layers[:-1]:
            both = zip(self._pairs[-1], weight, bias, strict=True)
            self._pairs.append([layer_of(seen, own, start[0], self._activation) for seen, own, start in both])
        weight, bias = self._layers[-1].weight, self._layers[-1].bias
        ends = zip(self._pairs[-1], weight.squeeze(2), bias.view(2, 1), strict=True)
        return torch.stack([torch.addmv(start, seen, vector) for seen, vector, start in ends])

    @torch.no_grad()
    def backward(self, up: Tensor) -> None:
        """As that of one. `up`: `[2, N]`."""
        ones, last = self._ones_for(up.shape[1]), self._layers[-1]
        by_weight, by_bias = gradients_of(last)
        by_bias.view(2).add_(up.sum(1))
        for twin, own in enumerate(up):
            by_weight[twin, :, 0].addmv_(self._pairs[-1][twin].t(), own)
            down = own.unsqueeze(1) * last.weight[twin].t()
            for i in reversed(range(len(self._layers) - 1)):
                down = self._slope(down, self._pairs[i + 1][twin])
                weights, biases = gradients_of(self._layers[i])
                weights[twin].add_(product(self._pairs[i][twin].t(), down))
                biases[twin, 0].addmv_(down.t(), ones)
                if i:
                    down = product(down, self._layers[i].weight[twin].t())

    @torch.no_grad()
    def by_input(self, up: Tensor, count: int) -> Tensor:
        """The derivative by the last `count` numbers that both were given, `[N, count]`. Rows of `up` that are 0 cost nothing."""
        found = up.new_zeros(up.shape[1], count)
        for twin, own in enumerate(up):
            rows = own.nonzero().squeeze(1)
            some = own.index_select(0, rows)
            if more := -len(rows) % ROWS:
                rows, some = functional.pad(rows, (0, more)), functional.pad(some, (0, more))
            found.index_add_(0, rows, self._through(twin, some.unsqueeze(1), rows, count))
        return found

    def _through(self, twin: int, up: Tensor, rows: Tensor, count: int) -> Tensor:
        """Some rows of one of both, all the way back."""
        for i in reversed(range(1, len(self._layers))):
            weight = self._layers[i].weight[twin]
            up = up * weight.t() if weight.shape[1] == 1 else product(up, weight.t())
            up = self._slope(up, self._pairs[i][twin].index_select(0, rows))
        return product(up, self._layers[0].weight[twin, -count:].t())


def layer_of(x: Tensor, weight: Tensor, bias: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """`[N, in]` -> `[N, out]`. Only relu is a part of the product: oneDNN's tanh is not torch's to the last digits."""
    if activation is torch.relu:
        return product(x, weight, bias, relu=True)
    return ACTIVATIONS[activation](product(x, weight, bias))


def gradients_of(layer: Layer) -> tuple[Tensor, Tensor]:
    """Of a layer that learns."""
    assert layer.by_weight is not None
    assert layer.by_bias is not None
    return layer.by_weight, layer.by_bias


def _relu_slope(up: Tensor, seen: Tensor) -> Tensor:
    """Through the activation that gave `seen`, in place."""
    torch.ops.aten.threshold_backward.grad_input(up, seen, 0, grad_input=up)
    return up


def _tanh_slope(up: Tensor, seen: Tensor) -> Tensor:
    torch.ops.aten.tanh_backward.grad_input(up, seen, grad_input=up)
    return up
