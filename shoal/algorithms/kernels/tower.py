"""Dense tanh layers under a linear output, forwards and backwards."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Tower:
    """A stack of `nn.Linear`s with tanh between them. Gradients go straight into the flat block: every `.grad` is a view of it."""

    def __init__(self, linears: list[nn.Linear]) -> None:
        self._weights = [linear.weight for linear in linears]
        self._biases = [linear.bias for linear in linears]
        self._seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """`[N, in]` -> `[out, N]`: outputs first, so that what follows runs along the long axis."""
        self._seen = [x]
        for weight, bias in zip(self._weights[:-1], self._biases[:-1], strict=True):
            x = torch.addmm(bias, x, weight.t()).tanh_()
            self._seen.append(x)
        return torch.addmm(self._biases[-1].unsqueeze(1), self._weights[-1], x.t())

    def backward(self, upstream: Tensor) -> None:
        """The loss's derivative by the outputs, `[out, N]` -> `.grad` of every weight and bias."""
        up = upstream
        for i in reversed(range(len(self._weights))):
            weight, bias = self._weights[i], self._biases[i]
            torch.mm(up, self._seen[i], out=weight.grad)
            torch.sum(up, 1, out=bias.grad)
            if i:
                below = torch.mm(up.t(), weight)
                up = torch.ops.aten.tanh_backward(below, self._seen[i]).t()
