"""Images through convolutions: the DQN network and the IMPALA residual network."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box
from pydantic import Field
from torch import Tensor, nn

from shoal.api.policy import Model
from shoal.base.arithmetic import by_hand
from shoal.base.config import Config
from shoal.base.errors import InputError
from shoal.base.tree import Tree
from shoal.models.layers import Dense, Width, orthogonal

WOVEN = 4
"""Channels of bytes that make a 32-bit number."""
STACK = 4
"""Axes of several images with channels."""
NATURE_MINIMUM = 36
"""Pixels per side below which the three convolutions of the DQN network leave nothing."""


def suits_nature(space: Space[Any]) -> bool:
    """An image by its look, bytes with three axes or a stack of them, and large enough for the `nature` network."""
    if not isinstance(space, Box) or space.dtype != np.uint8 or len(space.shape) not in (3, STACK):
        return False
    pixels = Pixels(space, "nature")
    return min(pixels.height, pixels.width) >= NATURE_MINIMUM


class Pixels(nn.Module):
    """`[R, B, ...]` images -> float32 `[R * B, channels, height, width]` in the channels_last layout.

    Channels are the smaller of the first and the last axis (the last if equal). Of stacks of images, `[images, ...]`, the channels
    of all lie side by side. Bytes are scaled to [0, 1], floats are taken as they are.
    """

    def __init__(self, space: Space[Any], model: str) -> None:
        super().__init__()
        if not isinstance(space, Box) or len(space.shape) not in (3, STACK):
            raise InputError(
                f"model.name = '{model}' takes images with three axes (height, width, channels), not {space}: "
                "try model.name = 'auto'"
            )
        shape = space.shape[-3:]
        first, _, last = shape
        self.channels_first, self.stacked = first < last, len(space.shape) == STACK
        self.channels = (first if self.channels_first else last) * (space.shape[0] if self.stacked else 1)
        self.height, self.width = shape[1:] if self.channels_first else shape[:2]
        self.bytes = space.dtype == np.uint8

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(0, 1)
        if self.bytes and x.dtype != torch.uint8:  # prepared already
            return x
        if not self.channels_first:
            x = x.movedim(-1, -3)
        if self.stacked:
            x = x.flatten(1, 2)
        # Reordered while still bytes: a quarter of the traffic.
        x = channels_last(x).float()
        return x.mul_(1 / 255) if self.bytes else x

    def prepared(self, observation: Tree) -> Tree:
        """Bytes as `forward` gives them, `[R, B, channels, height, width]`."""
        return self(observation).unflatten(0, observation.shape[:2]) if self.bytes else observation


def channels_last(x: Tensor) -> Tensor:
    """`[N, channels, height, width]` with the channels side by side in memory.

    Four planes of bytes are woven together as numbers of 32 bits: 5 us for a stack of 84 x 84, PyTorch's own way takes 10 to 40.
    """
    woven = x.dtype == torch.uint8 and x.shape[1] == WOVEN and by_hand(x) and sys.byteorder == "little"
    if not woven or x.is_contiguous(memory_format=torch.channels_last):
        return x.contiguous(memory_format=torch.channels_last)
    words = x[:, -1].to(torch.int32)
    for plane in reversed(range(WOVEN - 1)):
        words.bitwise_left_shift_(8).bitwise_or_(x[:, plane])
    return words.unsqueeze(-1).view(torch.uint8).permute(0, 3, 1, 2)


def rows(x: Tensor) -> Tensor:
    """`[N, channels, height, width]` -> `[N, features]`; no copy from the channels_last layout."""
    return x.permute(0, 2, 3, 1).flatten(1)


class NatureConfig(Config):
    """The convolutions of Mnih et al. (2015), Human-level control through deep reinforcement learning."""

    name: Literal["nature"] = "nature"
    channels: list[Width] = Field([32, 64, 64], min_length=3, max_length=3)
    """Channels of the three convolutions; half as many are nearly three times as fast on a CPU."""
    hidden: list[Width] = Field([512])
    """Width of each dense layer after the convolutions."""


class NatureModel(Model):
    """Images of at least 36 x 36 pixels -> `[R, B, hidden[-1]]`."""

    Config = NatureConfig
    costly = True

    def __init__(self, observation_space: Space[Any], config: NatureConfig) -> None:
        super().__init__(observation_space, config)
        self.pixels = Pixels(observation_space, config.name)
        height, width = self.pixels.height, self.pixels.width
        if min(height, width) < NATURE_MINIMUM:
            raise InputError(
                f"model.name = 'nature' needs images of at least {NATURE_MINIMUM} x {NATURE_MINIMUM} pixels, "
                f"these are {height} x {width}: try model.name = 'impala' or 'mlp'"
            )
        layers: list[nn.Module] = []
        channels = self.pixels.channels
        for out, kernel, stride in zip(config.channels, (8, 4, 3), (4, 2, 1), strict=True):
            layers += [orthogonal(nn.Conv2d(channels, out, kernel, stride)), nn.ReLU(inplace=True)]
            channels, height, width = out, (height - kernel) // stride + 1, (width - kernel) // stride + 1
        self.convolutions = nn.Sequential(*layers)
        self.dense = Dense(channels * height * width, config.hidden, "relu")
        self.features = self.dense.features

    def prepared(self, observation: Tree) -> Tree:
        return self.pixels.prepared(observation)

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """See Model."""
        return self.dense(rows(self.convolutions(self.pixels(observation)))).unflatten(0, first.shape), state


class ImpalaConfig(Config):
    """The residual network of Espeholt et al. (2018), IMPALA, figure 3 right."""

    name: Literal["impala"] = "impala"
    channels: list[Width] = Field([16, 32, 32], min_length=1)
    """Channels of each stage; a stage halves the image."""
    hidden: list[Width] = Field([256])
    """Width of each dense layer after the convolutions."""


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(self.first(x.relu()).relu_())


class ImpalaModel(Model):
    """Images of any size -> `[R, B, hidden[-1]]`."""

    Config = ImpalaConfig
    costly = True

    def __init__(self, observation_space: Space[Any], config: ImpalaConfig) -> None:
        super().__init__(observation_space, config)
        self.pixels = Pixels(observation_space, config.name)
        channels, height, width = self.pixels.channels, self.pixels.height, self.pixels.width
        layers: list[nn.Module] = []
        for out in config.channels:
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
            layers += [Residual(out), Residual(out)]
            channels, height, width = out, (height + 1) // 2, (width + 1) // 2
        self.convolutions = nn.Sequential(*layers, nn.ReLU(inplace=True))
        self.dense = Dense(channels * height * width, config.hidden, "relu")
        self.features = self.dense.features

    def prepared(self, observation: Tree) -> Tree:
        return self.pixels.prepared(observation)

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """See Model."""
        return self.dense(rows(self.convolutions(self.pixels(observation)))).unflatten(0, first.shape), state
