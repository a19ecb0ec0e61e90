"""The games of OpenSpiel by their ids: `openspiel/leduc_poker`. Many copies, one state object each, moved in a Python loop.

Chance is drawn by (seed, copy, episode, time), as in native environments. Rewards are what `returns` grew by. Nothing of OpenSpiel
is imported before such an id is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array, Tree
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome

PREFIX = "openspiel/"
GROUP = "player"
TENSORS = ("information_state", "observation")


def find_openspiel(env_id: str) -> Callable[..., OpenSpielEnv]:
    """The function that builds a batch of the game."""
    import pyspiel

    name = env_id.removeprefix(PREFIX)
    if name not in (known := pyspiel.registered_names()):
        advice = did_you_mean(env_id, [PREFIX + each for each in known])
        raise InputError(f"env.id = '{env_id}' is not a game of OpenSpiel; {advice}")
    return partial(OpenSpielEnv, name)


def load_game(name: str, settings: dict[str, Any]) -> Any:
    """A game with its parameters; those that it does not have are named before OpenSpiel is asked, which would print a page."""
    import pyspiel

    takes = next(each for each in pyspiel.registered_games() if each.short_name == name).parameter_specification
    for key in settings:
        if key not in takes:
            advice = did_you_mean(key, [*takes, "tensor"])
            raise InputError(f"env.kwargs.{key} is no parameter of '{PREFIX}{name}'; {advice}")
    return pyspiel.load_game(name, settings)


class OpenSpielEnv(NativeEnv):
    """`player_0`, `player_1`, ... of one game, in turn or at once. `tensor`: what everyone is shown, `information_state` or
    `observation`; by default the first in games of imperfect information that have it. All else goes to the game.
    """

    def __init__(self, name: str, num_envs: int, *, first_slot: int = 0, tensor: str = "", **settings: Any) -> None:
        self.game = game = load_game(name, settings)
        self.tensor = _tensor_of(name, game.get_type(), tensor)
        shape = getattr(game, f"{self.tensor}_tensor_shape")()
        self.players = game.num_players()
        agents = tuple(f"player_{number}" for number in range(self.players))
        space = Box(-np.inf, np.inf, tuple(shape), np.float32)
        super().__init__(
            {GROUP: AgentGroup(agents, space, Discrete(game.num_distinct_actions()))}, num_envs, first_slot
        )
        self.states: list[Any] = [None] * num_envs
        """One of OpenSpiel's for each copy; none in which chance is to move."""
        self._everyone = np.arange(num_envs)

    # ------------------------------------------------------------ the rules of the game

    def begin(self, rows: Array) -> None:
        for row in rows.tolist():
            self.states[row] = self.game.new_initial_state()
        self._chance(rows)

    def advance(self, actions: ByGroup) -> Outcome:
        chosen = actions[GROUP].tolist()
        before = self._earned()
        for state, own in zip(self.states, chosen, strict=True):
            self._move(state, own)
        self._chance(self._everyone)
        over = np.array([state.is_terminal() for state in self.states])
        return self.ended_together({GROUP: self._earned() - before}, over)

    def _move(self, state: Any, chosen: list[int]) -> None:
        player = state.current_player()
        wanted = list(enumerate(chosen)) if player < 0 else [(player, chosen[player])]
        for number, action in wanted:
            if action not in state.legal_actions(number):
                raise ValueError(f"player_{number} takes the action {action}, which its mask does not allow")
        if player < 0:
            state.apply_actions(chosen)
        else:
            state.apply_action(chosen[player])

    def _chance(self, rows: Array) -> None:
        """Until somebody moves or it is over."""
        random = self.random(rows)
        while any(self.states[row].is_chance_node() for row in rows.tolist()):
            shares = random.uniform(0.0, 1.0)
            for row, share in zip(rows.tolist(), shares.tolist(), strict=True):
                if self.states[row].is_chance_node():
                    outcomes, chances = zip(*self.states[row].chance_outcomes(), strict=True)
                    place = int(np.searchsorted(np.cumsum(chances), share, side="right"))
                    self.states[row].apply_action(outcomes[min(place, len(outcomes) - 1)])

    def _earned(self) -> Array:
        return np.array([state.returns() for state in self.states])

    def observe(self) -> ByGroup:
        space = self.groups[GROUP].observation_space
        shown = [
            getattr(state, f"{self.tensor}_tensor")(player) for state in self.states for player in range(self.players)
        ]
        return {GROUP: np.array(shown, np.float32).reshape(self.num_envs, self.players, *(space.shape or ()))}

    def acting(self) -> ByGroup:
        movers = np.array([state.current_player() for state in self.states])[:, None]
        at_once = np.array([state.is_simultaneous_node() for state in self.states])[:, None]
        return {GROUP: at_once | (movers == np.arange(self.players))}

    def action_masks(self) -> ByGroup:
        """Whoever waits is told nothing: all is allowed."""
        allowed = np.ones((self.num_envs, self.players, self.game.num_distinct_actions()), bool)
        for row, player in np.argwhere(self.acting()[GROUP]).tolist():
            allowed[row, player] = False
            allowed[row, player, self.states[row].legal_actions(player)] = True
        return {GROUP: allowed}

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> Tree:
        """And how each copy came where it is."""
        return {**super().snapshot(), "history": tuple(np.array(state.history(), np.int64) for state in self.states)}

    def restore(self, tree: Tree) -> None:
        """Every copy makes its moves again."""
        super().restore({key: value for key, value in tree.items() if key != "history"})
        self.states = [replayed(self.game, moves.tolist()) for moves in tree["history"]]


def replayed(game: Any, moves: list[int]) -> Any:
    """The state after these moves, as `State.history` has them: those made at once one behind the other."""
    state = game.new_initial_state()
    while moves:
        count = game.num_players() if state.is_simultaneous_node() else 1
        (state.apply_actions if count > 1 else lambda move: state.apply_action(*move))(moves[:count])
        moves = moves[count:]
    return state


def _tensor_of(name: str, kind: Any, wanted: str) -> str:
    """Which tensor everyone is shown."""
    there = [tensor for tensor in TENSORS if getattr(kind, f"provides_{tensor}_tensor")]
    said = f"env.id = '{PREFIX}{name}'"
    if kind.dynamics.name == "MEAN_FIELD":
        raise InputError(f"{said} is a game of one player and a crowd, which is not played here; choose another game")
    if kind.chance_mode.name == "SAMPLED_STOCHASTIC":
        raise InputError(f"{said} draws its chance by itself, so no run of it could be repeated; choose another game")
    if not there:
        raise InputError(f"{said} shows its players no tensor, so that no policy can play it; choose another game")
    if wanted and wanted not in there:
        raise InputError(f"env.kwargs.tensor = '{wanted}': '{PREFIX}{name}' has {' and '.join(there)}")
    return wanted or there[-1 if kind.information.name == "PERFECT_INFORMATION" else 0]
