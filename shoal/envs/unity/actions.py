"""Actions of a behaviour: the group's array in, what the player reads out.

Numbers alone are a Box, choices alone Discrete or MultiDiscrete. Behaviours with both become choices throughout: each
number is one of `bins` steps from -1 to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from shoal.api.env import Array
from shoal.base.errors import InputError
from shoal.envs.unity.protocol import AgentAction


class ActionCodec:
    """Of one behaviour: so many numbers, and branches of so many choices each."""

    def __init__(self, behaviour: str, continuous: int, branches: tuple[int, ...], bins: int) -> None:
        if not continuous and not branches:
            raise InputError(f"behaviour '{behaviour}' has no actions: give it some in its Behavior Parameters")
        self.continuous, self.branches = continuous, branches
        self.hybrid = bool(continuous and branches)
        self._steps = np.linspace(-1.0, 1.0, bins, dtype="<f4")
        self._free = continuous * bins if self.hybrid else 0
        self.mask_width = self._free + sum(branches)
        self.space: Box | Discrete | MultiDiscrete
        if not branches:
            self.space = Box(-1.0, 1.0, (continuous,), np.float32)
        elif len(branches) == 1 and not continuous:
            self.space = Discrete(branches[0])
        else:
            self.space = MultiDiscrete([bins] * continuous + list(branches))
        self.default = AgentAction(continuous=bytes(4 * continuous), discrete=[0] * len(branches))
        """For who decides and is nobody's."""

    def encode(self, actions: Array) -> list[Any]:
        """`[agents, ...]` -> a message for each."""
        if not self.branches:
            numbers = np.clip(actions, -1.0, 1.0).astype("<f4")
            return [AgentAction(continuous=row.tobytes()) for row in numbers]
        chosen = actions.reshape(len(actions), -1)
        if not self.continuous:
            return [AgentAction(discrete=row) for row in chosen.tolist()]
        numbers = self._steps[chosen[:, : self.continuous]]
        picked = chosen[:, self.continuous :].tolist()
        return [
            AgentAction(continuous=n.tobytes(), discrete=row) for n, row in zip(numbers, picked, strict=True)
        ]  # fmt: skip

    def allowed(self, forbidden: bytes) -> Array:
        """bool `[mask_width]`: the player marks what is forbidden, in its branches; nothing: everything is allowed."""
        allowed = np.ones(self.mask_width, bool)
        if forbidden:
            marks = np.frombuffer(forbidden, np.uint8)
            if len(marks) != sum(self.branches):
                raise ValueError(f"a mask of {len(marks)} entries came for {sum(self.branches)} choices")
            allowed[self._free :] = marks == 0
        return allowed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionCodec) and (self.continuous, self.branches) == (other.continuous, other.branches)

    __hash__ = None  # type: ignore[assignment]
