"""The rules of a small game, one state at a time: who moves, what is allowed, what follows, what everyone sees and earns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

from shoal.api.env import Array

CHANCE, OVER = -1, -2
"""Who moves where nobody does: dice or cards; the game is over."""

State = Any
"""Hashable; two ways to equal states are one state, so where somebody remembers how a game went, that is part of it."""


class Rules(ABC):
    """A game of finitely many states. A table of it is made once (`Table`), and then only that is played."""

    players: int
    actions: int
    """Of which some are allowed in a state."""
    simultaneous = False
    """All move at once: written as moves in turn, 0 first, of which nobody sees the others' until all have moved."""

    @abstractmethod
    def start(self) -> State:
        """The first state."""

    @abstractmethod
    def mover(self, state: State) -> int:
        """A player, CHANCE or OVER."""

    @abstractmethod
    def legal(self, state: State) -> list[int]:
        """What the mover may do."""

    @abstractmethod
    def follow(self, state: State, action: int) -> State:
        """What a move leads to."""

    def chances(self, state: State) -> list[tuple[float, State]]:
        """What chance leads to, and how often."""
        raise NotImplementedError

    @abstractmethod
    def payoff(self, state: State) -> tuple[float, ...]:
        """What each player has earned when it is over."""

    @abstractmethod
    def knows(self, state: State, player: int) -> Hashable:
        """All that a player knows: states that it cannot tell apart have this in common."""

    @abstractmethod
    def see(self, state: State, player: int) -> Array:
        """The same as numbers, always as many: what its policy is shown."""

    def describe(self, seen: Array) -> str:
        """What `see` gave, for a person who plays."""
        return f"you see {seen.tolist()}"

    def action_names(self) -> list[str]:
        """What actions are called."""
        return [str(action) for action in range(self.actions)]
