"""How an observation is made up, where a lane stores more than its agent sees.

A plain observation stays as the environment gives it. Otherwise it is a dict: the agent's own observation, which of its policy's
agents it is, and what a central critic sees. Deciding takes the first two at most, so the last never travels to who decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium import Space
from gymnasium.spaces import Dict, Discrete

OWN, AGENT, STATE = "own", "agent", "state"


@dataclass(frozen=True)
class Sight:
    """Of one policy."""

    own: Space[Any]
    """What its agents see."""
    agents: int = 0
    """How many it tells apart; 0: it does not."""
    state: Space[Any] | None = None
    """What its critic sees beside that; None: nothing."""

    @property
    def plain(self) -> bool:
        """Observations are those of the environment."""
        return not self.agents and self.state is None

    @property
    def policy_input(self) -> Space[Any]:
        """What a request holds."""
        return Dict({OWN: self.own, AGENT: Discrete(self.agents)}) if self.agents else self.own

    @property
    def stored(self) -> Space[Any]:
        """What a fragment holds."""
        if self.plain:
            return self.own
        parts: dict[str, Space[Any]] = {OWN: self.own}
        if self.agents:
            parts[AGENT] = Discrete(self.agents)
        if self.state is not None:
            parts[STATE] = self.state
        return Dict(parts)
