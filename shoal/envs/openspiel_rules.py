"""The rules of a small game of OpenSpiel, so that a table of it can be made and its exploitability computed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from shoal.api.env import Array
from shoal.base.errors import InputError
from shoal.envs.games.rules import CHANCE, OVER, Rules
from shoal.envs.openspiel import OpenSpielEnv


class OpenSpielRules(Rules):
    """Those of the game that an environment plays; policies are shown what they see there. A state is how the game went."""

    def __init__(self, env: OpenSpielEnv) -> None:
        self._game, self._tensor = env.game, env.tensor
        if self._game.get_type().dynamics.name != "SEQUENTIAL":
            raise InputError(f"{self._game}: only games whose players move in turn can be made a table of")
        self.players, self.actions = env.players, self._game.num_distinct_actions()
        self._states: dict[Hashable, Any] = {}
        self._nothing = np.zeros(env.groups["player"].observation_space.shape or ())

    def start(self) -> Hashable:
        return self._kept(self._game.new_initial_state())

    def _kept(self, state: Any) -> Hashable:
        went = tuple(state.history())
        self._states[went] = state
        return went

    def mover(self, state: Hashable) -> int:
        own = self._states[state]
        return OVER if own.is_terminal() else CHANCE if own.is_chance_node() else int(own.current_player())

    def legal(self, state: Hashable) -> list[int]:
        return list(self._states[state].legal_actions())

    def follow(self, state: Hashable, action: int) -> Hashable:
        return self._kept(self._states[state].child(action))

    def chances(self, state: Hashable) -> list[tuple[float, Hashable]]:
        return [(share, self.follow(state, action)) for action, share in self._states[state].chance_outcomes()]

    def payoff(self, state: Hashable) -> tuple[float, ...]:
        return tuple(self._states[state].returns())

    def knows(self, state: Hashable, player: int) -> Hashable:
        """Only where it moves: elsewhere nobody asks."""
        return self._states[state].information_state_string(player) if self.mover(state) == player else None

    def see(self, state: Hashable, player: int) -> Array:
        if self.mover(state) != player:
            return self._nothing
        return np.array(getattr(self._states[state], f"{self._tensor}_tensor")(player)).reshape(self._nothing.shape)
