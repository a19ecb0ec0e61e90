"""What tells one kind of population from another: who its members are, how far each goes in a turn, what is decided between."""

from __future__ import annotations

from typing import Any, Protocol

from shoal.population.state import Member, State
from shoal.population.turn import Turn

Decision = dict[str, Any]
"""A line for the journal: its kind, and what belongs to it."""


class Strategy(Protocol):
    """Pure: the same state gives the same decisions, so that a population which died in between makes them again."""

    def decide(self, state: State) -> list[Decision]:
        """What is due now; applied in this order, and asked again until nothing is."""

    def turns(self, state: State) -> list[Turn]:
        """Of members that wait, in the order in which they should have slots."""

    def over(self, state: State) -> str | None:
        """Why there is nothing left to do, if there is."""

    def line(self, member: Member) -> str:
        """What tells a member from the others, in a few words."""
