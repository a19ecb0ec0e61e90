"""Observations with parts: an encoder for each, their features side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from gymnasium import Space, spaces
from pydantic import Field
from torch import Tensor, nn

from shoal.api.policy import Model
from shoal.base.config import Config
from shoal.base.errors import InputError
from shoal.base.tree import Tree
from shoal.models.image import NatureConfig, NatureModel, suits_nature
from shoal.models.layers import Activation, Dense, Width
from shoal.models.mlp import MLPConfig, MLPModel

Path = tuple[Any, ...]


class TreeConfig(Config):
    """One encoder per part of a Dict or Tuple observation, then one dense layer over all of them."""

    name: Literal["dict"] = "dict"
    hidden: list[Width] = Field([64, 64], min_length=1)
    """Dense layers for each part but images, which get `nature`; the last width is also that of the joint layer."""
    activation: Activation = "tanh"
    """What follows each dense layer."""


class TreeModel(Model):
    """Nested dicts and tuples of `[R, B, ...]` -> `[R, B, hidden[-1]]`."""

    Config = TreeConfig

    def __init__(self, observation_space: Space[Any], config: TreeConfig) -> None:
        super().__init__(observation_space, config)
        leaves = list(leaf_spaces(observation_space))
        if not leaves or leaves[0][0] == ():
            raise InputError(
                f"model.name = 'dict' takes Dict and Tuple observations with parts, not {observation_space}: "
                "try model.name = 'auto'"
            )
        self.paths = [path for path, _ in leaves]
        # A list, not a ModuleDict: parts may have names that modules already use, such as `type`.
        encoders = [_encoder(space, config) for _, space in leaves]
        self.encoders = nn.ModuleList(encoders)
        width = sum(encoder.features for encoder in encoders)
        self.joint = Dense(width, config.hidden[-1:], config.activation)
        self.features = self.joint.features

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """See Model."""
        parts = [
            encoder(leaf_at(observation, path), None, first)[0]
            for path, encoder in zip(self.paths, self.encoders, strict=True)
        ]
        return self.joint(torch.cat(parts, -1)), state


def leaf_spaces(space: Space[Any], path: Path = ()) -> Iterator[tuple[Path, Space[Any]]]:
    """Every part of a nested Dict or Tuple space with the keys that lead to it; a plain space is its own only part."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from leaf_spaces(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from leaf_spaces(part, (*path, i))
    else:
        yield path, space


def leaf_at(tree: Tree, path: Path) -> Any:
    """The leaf that `path` leads to."""
    for key in path:
        tree = tree[key]
    return tree


def _encoder(space: Space[Any], config: TreeConfig) -> Model:
    if suits_nature(space):
        return NatureModel(space, NatureConfig())
    return MLPModel(space, MLPConfig(hidden=config.hidden, activation=config.activation))
