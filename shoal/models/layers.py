"""Dense layers and their start values: what every model is built from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from shoal.base.config import Count
from shoal.base.products import affine

Width = Annotated[Count, Field(ge=1)]
"""How many numbers a layer gives."""

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)

Activation = Literal["tanh", "relu", "silu", "elu", "gelu"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "silu": functional.silu,
    "elu": functional.elu,
    "gelu": functional.gelu,
}


def orthogonal(layer: Layer, gain: float = math.sqrt(2)) -> Layer:
    """Start `layer` from an orthogonal matrix and zero bias; returns it."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


class Dense(nn.Module):
    """`[..., width]` -> `[..., features]`: linear layers, each with its activation; no layers: the input itself."""

    def __init__(self, width: int, hidden: Sequence[int], activation: Activation, *, layer_norm: bool = False) -> None:
        super().__init__()
        widths = [width, *hidden]
        self.features = widths[-1]
        self.linears = nn.ModuleList(orthogonal(nn.Linear(a, b)) for a, b in zip(widths, hidden, strict=False))
        self.norms = nn.ModuleList(nn.LayerNorm(b) for b in hidden) if layer_norm else None
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        # Functional calls: at 16 rows, calling modules instead takes a third longer.
        for i, linear in enumerate(self.linears):
            assert isinstance(linear, nn.Linear)
            x = affine(x, linear.weight, linear.bias)
            if self.norms is not None:
                x = self.norms[i](x)
            x = self.activation(x)
        return x
