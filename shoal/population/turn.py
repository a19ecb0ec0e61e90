"""A turn: what a slot is told to do for a member, and what comes of it. Plain data, as JSON between processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

ENDED = "turn ended"
"""How the reason begins where a member is to make room for the next."""
LEFT = "left its slot"
"""The same, where somebody wanted the slot back."""


@dataclass(frozen=True)
class Turn:
    """One member in a slot."""

    member: str
    words: list[str]
    """Settings on top of the population's."""
    until: int | None = None
    """Environment steps; None: until a stop rule of its own."""
    read_back: dict[str, Any] = field(default_factory=dict)
    """Settings of its algorithms that must be in use when it goes on."""
    episodes: int = 0
    """Greedy episodes for its score; 0: what training says."""
    seed: int = 0
    """Of those episodes: the same for all members that are compared."""


@dataclass(frozen=True)
class Result:
    """How a turn ended."""

    reason: str
    steps: int
    version: int
    trained: int
    """Environment steps of this turn."""
    score: dict[str, Any] | None
    """Mean, and the returns of greedy episodes."""
    core_seconds: float
    slot_seconds: float
    swap_seconds: float
    """Of those, what was not spent on training and scoring, nor on getting to know an environment for the first time."""
    process: int
    """That it was in."""
    machine: str = ""
    """The address of the machine, on a cluster."""

    @property
    def left(self) -> bool:
        """It did not come to its end."""
        return self.reason.startswith((LEFT, "interrupted"))

    @property
    def over(self) -> bool:
        """The member itself came to its end."""
        return not self.left and not self.reason.startswith(ENDED)


def to_bytes(**message: Any) -> bytes:
    """One message: a word, and what belongs to it."""
    return json.dumps(
        {key: asdict(value) if isinstance(value, Turn | Result) else value for key, value in message.items()}
    ).encode()


def from_bytes(raw: bytes) -> dict[str, Any]:
    """The message, with turns and results as such."""
    kinds: dict[str, Any] = {"turn": Turn, "result": Result}
    return {key: kinds[key](**value) if key in kinds else value for key, value in json.loads(raw).items()}
