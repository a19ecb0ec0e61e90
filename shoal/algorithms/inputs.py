"""From what lanes store to what actor and critic are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor, nn

from shoal.api.sight import AGENT, OWN, Sight
from shoal.base.config import Named
from shoal.base.tree import Tree
from shoal.models.image import suits_nature
from shoal.models.vector import Vector

ACTOR, CRITIC = "actor", "critic"


class Joined(nn.Module):
    """Parts of an observation as one: side by side where all are vectors, otherwise a dict of them."""

    def __init__(self, parts: dict[str, Space[Any]]) -> None:
        super().__init__()
        self._names = tuple(parts)
        flat = len(parts) > 1 and all(_is_vector(space) for space in parts.values())
        self.vectors = nn.ModuleList([Vector(space) for space in parts.values()] if flat else [])
        self.space: Space[Any] = next(iter(parts.values())) if len(parts) == 1 else Dict(parts)
        if flat:
            width = sum(Vector(space).features for space in parts.values())
            self.space = Box(-np.inf, np.inf, (width,), np.float32)

    def forward(self, stored: dict[str, Tree]) -> Tree:
        """`[R, B, ...]` -> the same rows in `space`."""
        if self.vectors:
            parts = [_rows(vector, stored[name]) for name, vector in zip(self._names, self.vectors, strict=True)]
            return torch.cat(parts, -1)
        return stored[OWN] if len(self._names) == 1 else {name: stored[name] for name in self._names}


def _rows(vector: nn.Module, x: Tensor) -> Tensor:
    rows: Tensor = vector(x.flatten(0, 1)).unflatten(0, x.shape[:2])
    return rows


def _is_vector(space: Space[Any]) -> bool:
    return isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary) and not suits_nature(space)


class Inputs(nn.Module):
    """What a policy with a Sight is shown: one input for all, or `{"actor", "critic"}` where the critic is central."""

    def __init__(self, sight: Sight) -> None:
        super().__init__()
        parts = sight.stored.spaces  # type: ignore[attr-defined]
        self.actor = Joined({name: parts[name] for name in (OWN, AGENT) if name in parts})
        # The own observation is among what the critic sees: it tells whose value is meant.
        self.critic = None if sight.state is None else Joined({OWN: parts[OWN], **parts})

    def forward(self, stored: dict[str, Tree]) -> Tree:
        actor = self.actor(stored)
        return actor if self.critic is None else {ACTOR: actor, CRITIC: self.critic(stored)}


def central_section(model: Named, space: Space[Any], *, recurrent: bool) -> Named:
    """The body of a central critic: the actor's own, without memory, for a vector; for anything else one encoder per part."""
    if isinstance(space, Dict):
        return model if model.name == "dict" else Named.parse({"name": "dict"})
    if not recurrent:
        return model
    kept = {key: value for key, value in model.rest.items() if key in ("hidden", "activation")}
    return Named.parse({"name": "mlp", **kept})
