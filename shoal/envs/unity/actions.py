"""Actions of a behaviour: the group's array in, what the player reads out."""

from __future__ import annotations

from typing import Any

from shoal.api.env import Array
from shoal.envs.mixed_actions import MixedActions
from shoal.envs.unity.protocol import AgentAction


class ActionCodec(MixedActions):
    """Of one behaviour."""

    def __init__(self, behaviour: str, continuous: int, branches: tuple[int, ...], bins: int) -> None:
        super().__init__(f"behaviour '{behaviour}'", continuous, branches, bins)
        self.default = AgentAction(continuous=bytes(4 * continuous), discrete=[0] * len(branches))
        """For who decides and is nobody's."""

    def encode(self, actions: Array) -> list[Any]:
        """`[agents, ...]` -> a message for each."""
        numbers, chosen = self.split(actions)
        if not self.branches:
            return [AgentAction(continuous=row.tobytes()) for row in numbers]
        if not self.continuous:
            return [AgentAction(discrete=row) for row in chosen.tolist()]
        pairs = zip(numbers, chosen.tolist(), strict=True)
        return [AgentAction(continuous=row.tobytes(), discrete=picked) for row, picked in pairs]
