"""Actions of numbers, of choices, or of both, in one space that policies act in.

Numbers alone are a Box from -1 to 1, choices alone Discrete or MultiDiscrete. Both together become choices throughout: each number
is one of `bins` steps from -1 to 1, and numbers come first.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from shoal.api.env import Array
from shoal.base.errors import InputError


class MixedActions:
    """So many numbers, and `branches` of so many choices each; `whose` is what errors call the agent."""

    def __init__(self, whose: str, continuous: int, branches: tuple[int, ...], bins: int) -> None:
        if not continuous and not branches:
            raise InputError(f"{whose} has no actions: give it some in the game")
        self.continuous, self.branches = continuous, branches
        self._steps = np.linspace(-1.0, 1.0, bins, dtype="<f4")
        self._free = continuous * bins if branches else 0
        self.mask_width = self._free + sum(branches)
        """Entries of a mask; 0 where actions cannot be masked."""
        self.space: Box | Discrete | MultiDiscrete
        if not branches:
            self.space = Box(-1.0, 1.0, (continuous,), np.float32)
        elif len(branches) == 1 and not continuous:
            self.space = Discrete(branches[0])
        else:
            self.space = MultiDiscrete([bins] * continuous + list(branches))

    def split(self, actions: Array) -> tuple[Array, Array]:
        """`[agents, ...]` of the space -> numbers `[agents, continuous]`, choices `[agents, branches]`."""
        rows = actions.reshape(len(actions), -1)
        if not self.branches:
            return np.clip(rows, -1.0, 1.0).astype("<f4"), rows[:, :0].astype(np.int64)
        return self._steps[rows[:, : self.continuous]], rows[:, self.continuous :]

    def allowed(self, forbidden: Array) -> Array:
        """bool `[mask_width]`, from marks `[sum(branches)]` of what is forbidden."""
        if len(forbidden) != sum(self.branches):
            raise ValueError(f"a mask of {len(forbidden)} entries came for {sum(self.branches)} choices")
        allowed = np.ones(self.mask_width, bool)
        allowed[self._free :] = forbidden == 0
        return allowed

    def alike(self, other: MixedActions) -> bool:
        """They are of the same size."""
        return (self.continuous, self.branches) == (other.continuous, other.branches)
