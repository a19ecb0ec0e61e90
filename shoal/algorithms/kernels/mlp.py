"""Dense layers, tanh or relu, under a linear output, forwards and backwards, in numpy.

A call into numpy costs a fraction of one into torch, and on minibatches of a few hundred rows calls are what costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from shoal.api.env import Array
from shoal.base.threads import limit_blas


class Activation(NamedTuple):
    """What follows a layer, in place; and its slope, by what came out, into another array."""

    of: Callable[[Array], object]
    slope: Callable[[Array, Array], object]


def _tanh_slope(seen: Array, slope: Array) -> None:
    np.multiply(seen, seen, out=slope)
    np.subtract(1, slope, out=slope)


TANH = Activation(lambda x: np.tanh(x, out=x), _tanh_slope)
RELU = Activation(lambda x: np.maximum(x, 0, out=x), lambda seen, slope: np.sign(seen, out=slope))
ACTIVATIONS: dict[Callable[[Tensor], Tensor], Activation] = {torch.tanh: TANH, torch.relu: RELU}
"""Those whose slopes are known here, by what torch calls them."""


class MLP:
    """`nn.Linear`s with an activation between them. Gradients go straight into the flat block: every `.grad` is a view of it."""

    def __init__(
        self, linears: list[nn.Linear], scratch: Scratch | None = None, *, activation: Activation | None = None
    ) -> None:
        limit_blas()
        self._linears, self._scratch, self._activation = linears, scratch or Scratch(), activation or TANH
        self._room: dict[int, _Room] = {}
        self._lies_at = -1

    def forward(self, x: Array) -> Array:
        """`[N, in]` -> `[N, out]`, good until the next call with as many rows."""
        if self._moved:
            self._look()
        room = self._now = self._room_for(len(x))
        room.seen[0] = x
        last = len(self._weights) - 1
        for i, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            out = np.dot(room.seen[i], weight.T, out=room.seen[i + 1])
            out += bias
            if i < last:
                self._activation.of(out)
        return room.seen[-1]

    def recall(self, seen: list[Array]) -> None:
        """Go backwards from what each layer was given, `[N, in]` each, by a forward that someone else did."""
        if self._moved:
            self._look()
        self._now = _Room(seen, self._scratch.ones(len(seen[0])))

    def backward(self, upstream: Array) -> None:
        """The loss's derivative by the outputs of the last forward, `[N, out]` -> `.grad` of every weight and bias."""
        room, up = self._now, upstream
        for i in reversed(range(len(self._weights))):
            seen = room.seen[i]
            np.dot(up.T, seen, out=self._by_weight[i])
            np.dot(room.ones, up, out=self._by_bias[i])
            if i:
                below, slope = self._scratch(i % 2, seen.shape), self._scratch("slope", seen.shape)
                np.dot(up, self._weights[i], out=below)
                self._activation.slope(seen, slope)
                up = np.multiply(below, slope, out=below)

    @property
    def _moved(self) -> bool:
        return self._linears[0].weight.data_ptr() != self._lies_at

    def _look(self) -> None:
        """Where parameters and gradients lie; they may have moved into a block that others share."""
        weights, biases = [each.weight for each in self._linears], [each.bias for each in self._linears]
        self._weights, self._biases = ([t.detach().numpy() for t in each] for each in (weights, biases))
        self._by_weight, self._by_bias = (
            [t.grad.numpy() for t in each if t.grad is not None] for each in (weights, biases)
        )
        self._lies_at = weights[0].data_ptr()

    def _room_for(self, rows: int) -> _Room:
        """Kept: a trainer's minibatches have one length or two."""
        if rows not in self._room:
            widths = [self._linears[0].in_features, *(each.out_features for each in self._linears)]
            seen = [np.empty((rows, width), np.float32) for width in widths]
            self._room[rows] = _Room(seen, self._scratch.ones(rows))
        return self._room[rows]


class Scratch:
    """Arrays to compute in, shared by MLPs that take turns: what they write last is still in the cache for the next."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[int | str, tuple[int, ...]], Array] = {}
        self._ones: dict[int, Array] = {}

    def __call__(self, name: int | str, shape: tuple[int, ...]) -> Array:
        array = self._arrays.get((name, shape))
        if array is None:
            array = self._arrays[name, shape] = np.empty(shape, np.float32)
        return array

    def ones(self, rows: int) -> Array:
        """`[rows]`, to be read only."""
        if rows not in self._ones:
            self._ones[rows] = np.ones(rows, np.float32)
        return self._ones[rows]


class _Room(NamedTuple):
    """seen     what each layer is given, and last what comes out
    ones     to add up rows with: a product with them takes a third of the time of a sum
    """

    seen: list[Array]
    ones: Array
