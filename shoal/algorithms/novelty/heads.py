"""Values for every arm: features and the number of the arm in, what each action is worth to it out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from shoal.models.heads.values import DiscreteValues
from shoal.models.layers import Dense


class ArmValues(nn.Module):
    """`[..., features]`, arms `[...]` -> `[..., actions, parts]`: one part for both rewards together, or one for each."""

    weights: Tensor

    def __init__(self, features: int, actions: int, weights: list[float], *, dueling: bool, separate: bool) -> None:
        super().__init__()
        self.register_buffer("weights", torch.tensor(weights))
        self.joint = Dense(features + len(weights), [features], "relu")
        parts = 2 if separate else 1
        self.parts = nn.ModuleList(DiscreteValues(features, actions, dueling=dueling) for _ in range(parts))

    def forward(self, features: Tensor, arm: Tensor) -> Tensor:
        ways = functional.one_hot(arm, len(self.weights)).to(features.dtype)
        features = self.joint(torch.cat([features, ways], -1))
        return torch.stack([part(features) for part in self.parts], -1)

    def blend(self, values: Tensor, arm: Tensor) -> Tensor:
        """`[..., actions, parts]`, `[...]` -> `[..., actions]`: what the arm goes by."""
        if values.shape[-1] == 1:
            return values[..., 0]
        return values[..., 0] + self.weights[arm].unsqueeze(-1) * values[..., 1]
