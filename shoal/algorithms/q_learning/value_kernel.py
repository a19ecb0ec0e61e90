"""Action values of small dense networks, with gradients by hand: observations in, values out, derivatives back.

Autograd and the calls around its graph take longer than the arithmetic. Values stay with torch, so that they are the bits that
act, and so does what is made of them (targets, weights, losses), all without a graph; the way back is numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from shoal.algorithms.kernels import WIDEST
from shoal.algorithms.kernels.mlp import ACTIVATIONS, MLP, Scratch
from shoal.api.env import Array
from shoal.base.arithmetic import by_hand
from shoal.models.heads.values import DiscreteValues
from shoal.models.mlp import MLPModel

_not_finite_later = np.errstate(invalid="ignore", over="ignore")
"""What is not finite shows in the gradient's norm."""


class ValueKernel:
    """What a network of action values says of observations `[R, B, ...]` -> `[R, B, actions]`."""

    def __init__(self, model: nn.Module, head: nn.Module | None, scratch: Scratch) -> None:
        assert isinstance(model, MLPModel)
        assert isinstance(head, DiscreteValues)
        linears = linears_of(model, head)
        activation = ACTIVATIONS[model.dense.activation]
        self._mlp = (
            MLP(linears, scratch, activation=activation)
            if head.value is None
            else DuelingMLP(linears, head.value, scratch, activation=activation)
        )
        self._hidden, self._activation, self._head = linears[:-1], model.dense.activation, head
        self._seen: list[Tensor] = []
        self._actions = head.advantage.out_features

    @staticmethod
    def suits(model: nn.Module, head: nn.Module | None) -> bool:
        """Whether the formulas of this folder are those of this network, and calls cost more than its arithmetic."""
        if type(model) is not MLPModel or type(head) is not DiscreteValues:  # a subclass may do what it likes
            return False
        plain = model.dense.norms is None and model.dense.activation in ACTIVATIONS and model.vector.plain
        narrow = max(linear.in_features for linear in linears_of(model, head)) <= WIDEST
        return plain and narrow and by_hand(head.advantage.weight, model.arithmetic)

    @torch.no_grad()
    def values(self, observation: Tensor) -> Tensor:
        """Without a graph."""
        rows = observation.shape[:2]
        seen = [observation.reshape(rows.numel(), -1)]
        for linear in self._hidden:
            seen.append(self._activation(functional.linear(seen[-1], linear.weight, linear.bias)))
        self._seen = seen
        values: Tensor = self._head(seen[-1].view(*rows, -1))
        return values

    @_not_finite_later
    def backward(self, taken: Tensor, counts: Tensor, slope: Tensor) -> None:
        """Write the gradient of every parameter, by the values of the last forward.

        taken: int64 `[R, B]`, counts: bool `[R, B]`; slope: the loss's derivative by the value that was taken, where it counts.
        """
        rows = np.flatnonzero(counts.numpy())
        by_value = np.zeros((counts.numel(), self._actions), np.float32)
        by_value[rows, taken.reshape(-1).numpy()[rows]] = slope.numpy()
        self._mlp.recall([each.numpy() for each in self._seen])
        self._mlp.backward(by_value)


@dataclass
class KnownLoss:
    """A loss whose gradient needs no graph."""

    backward: Callable[[], None]


class DuelingMLP(MLP):
    """Values are v + a - mean(a). All of it is linear, so it is done to the few weights of the heads instead of to every row."""

    def __init__(self, linears: list[nn.Linear], value: nn.Linear, *rest: Any, **named: Any) -> None:
        super().__init__(linears, *rest, **named)
        self._value = value

    def recall(self, seen: list[Array]) -> None:
        super().recall(seen)
        for own, value, both in self._heads:
            np.subtract(own, np.add.reduce(own, 0) / np.float32(len(own)), out=both)
            both += value

    def backward(self, upstream: Array) -> None:
        super().backward(upstream)
        for by_own, by_value, by_both in self._by_heads:
            total = np.add.reduce(by_both, 0)
            by_value[...] = total
            np.subtract(by_both, total / np.float32(len(by_both)), out=by_own)

    def _look(self) -> None:
        super()._look()
        value = (self._value.weight, self._value.bias)
        self._heads = self._joined((self._weights, self._biases), [t.detach().numpy() for t in value])
        grads = [t.grad.numpy() for t in value if t.grad is not None]
        self._by_heads = self._joined((self._by_weight, self._by_bias), grads) if grads else []

    @staticmethod
    def _joined(lists: tuple[list[Array], list[Array]], value: list[Array]) -> list[tuple[Array, Array, Array]]:
        """Put arrays of our own in the place of the last; gives those that were there, those of the value, and ours."""
        found = []
        for arrays, other in zip(lists, value, strict=True):
            found.append((arrays[-1], other, np.empty_like(arrays[-1])))
            arrays[-1] = found[-1][2]
        return found


def linears_of(model: MLPModel, head: DiscreteValues) -> list[nn.Linear]:
    """From the observation to what each action adds."""
    return [*(linear for linear in model.dense.linears if isinstance(linear, nn.Linear)), head.advantage]
