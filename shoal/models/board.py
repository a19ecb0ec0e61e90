"""Boards and small grids through windows: what is learned of a pattern in one place is known in every place."""

from __future__ import annotations

from typing import Any, Literal

from gymnasium import Space
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from shoal.api.policy import Model
from shoal.base.config import Config, Count
from shoal.base.errors import InputError
from shoal.base.tree import Tree
from shoal.models.image import Pixels
from shoal.models.layers import Dense, Width, orthogonal


class BoardConfig(Config):
    """Convolutions without padding or pooling, then dense layers: for boards and small grids."""

    name: Literal["board"] = "board"
    channels: list[Width] = Field([64], min_length=1)
    """Features of a window, layer after layer."""
    window: Count = Field(4, ge=1)
    """Cells per side of a window: 4 sees every four in a row."""
    hidden: list[Width] = Field([128])
    """Width of each dense layer after the windows."""


class BoardModel(Model):
    """Boards with three axes -> `[R, B, hidden[-1]]`."""

    Config = BoardConfig

    def __init__(self, observation_space: Space[Any], config: BoardConfig) -> None:
        super().__init__(observation_space, config)
        self.pixels, self.window = Pixels(observation_space, config.name), config.window
        channels, height, width = self.pixels.channels, self.pixels.height, self.pixels.width
        layers: list[nn.Linear] = []
        for out in config.channels:
            layers.append(orthogonal(nn.Linear(channels * config.window**2, out)))
            channels, height, width = out, height - config.window + 1, width - config.window + 1
        if min(height, width) < 1:
            raise InputError(
                f"model.window = {config.window}: {len(config.channels)} layers of it leave nothing of a board of "
                f"{self.pixels.height} x {self.pixels.width}; try a smaller one"
            )
        self.layers = nn.ModuleList(layers)
        self.dense = Dense(channels * height * width, config.hidden, "relu")
        self.features = self.dense.features

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """See Model."""
        x = self.pixels(observation).permute(0, 2, 3, 1)
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            # As a matrix product: on a CPU and so few cells a convolution takes half as long again.
            windows = x.unfold(1, self.window, 1).unfold(2, self.window, 1).flatten(3)
            x = functional.linear(windows, layer.weight, layer.bias).relu()
        return self.dense(x.flatten(1)).unflatten(0, first.shape), state
