"""Vectors and discrete observations through dense layers."""

from __future__ import annotations

from typing import Any, Literal

from gymnasium import Space
from pydantic import Field
from torch import Tensor

from shoal.api.policy import Model
from shoal.base.config import Config
from shoal.base.tree import Tree
from shoal.models.layers import Activation, Dense, Width
from shoal.models.vector import Vector


class MLPConfig(Config):
    """Dense layers on the flattened observation."""

    name: Literal["mlp"] = "mlp"
    hidden: list[Width] = Field([64, 64])
    """Width of each layer; an empty list hands the flattened observation to the heads."""
    activation: Activation = "tanh"
    """What follows each layer."""
    layer_norm: bool = False
    """Normalise each layer's output before its activation."""


class MLPModel(Model):
    """`[R, B, ...]` -> `[R, B, hidden[-1]]`."""

    Config = MLPConfig

    def __init__(self, observation_space: Space[Any], config: MLPConfig) -> None:
        super().__init__(observation_space, config)
        self.vector = Vector(observation_space)
        self.dense = Dense(self.vector.features, config.hidden, config.activation, layer_norm=config.layer_norm)
        self.features = self.dense.features

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """See Model."""
        return self.dense(self.vector(observation.flatten(0, 1))).unflatten(0, first.shape), state
