"""The games of OpenSpiel by their ids: `openspiel/leduc_poker`. Many copies, one state object each, moved in a Python loop.

Chance is drawn by (seed, copy, episode, time), as in native environments. Rewards are what `returns` grew by. Nothing of OpenSpiel
is imported before such an id is used.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from itertools import accumulate, chain
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
CHANCE, TOGETHER, OVER = -1, -2, -4
"""What OpenSpiel says in the place of a player whose turn it is."""


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
        self._movers = np.zeros(num_envs, np.int64)
        """Whose turn it is, or `TOGETHER`, or `OVER`: asked once for each position, since every question to a state costs."""
        self._earned = np.zeros((num_envs, self.players))
        self._paid_at_the_end = game.get_type().reward_model.name == "TERMINAL"
        self._allowed = np.ones((num_envs, self.players, game.num_distinct_actions()), bool)
        self._shown = np.zeros((num_envs, self.players, *shape), np.float32)
        self._stale = np.ones(num_envs, bool)
        """Copies that have moved since they were shown."""

    # ------------------------------------------------------------ the rules of the game

    def begin(self, rows: Array) -> None:
        for row in rows.tolist():
            self.states[row] = self.game.new_initial_state()
        self._play_chance(rows)
        self._earned[rows] = self._payoffs(rows)

    def advance(self, actions: ByGroup) -> Outcome:
        for row, (player, chosen) in enumerate(zip(self._movers.tolist(), actions[GROUP].tolist(), strict=True)):
            self._move(row, player, chosen)
        self._play_chance(self._everyone)
        over = self._movers == OVER
        rows = np.flatnonzero(over) if self._paid_at_the_end else self._everyone
        reward = np.zeros_like(self._earned)
        if len(rows):
            earned = self._payoffs(rows)
            reward[rows], self._earned[rows] = earned - self._earned[rows], earned
        return self.ended_together({GROUP: reward}, over)

    def _payoffs(self, rows: Array) -> Array:
        return np.array([self.states[row].returns() for row in rows.tolist()])

    def _move(self, row: int, player: int, chosen: list[int]) -> None:
        for number in range(self.players) if player == TOGETHER else (player,):
            action, allowed = chosen[number], self._allowed[row, number]
            if not (0 <= action < len(allowed) and allowed[action]):
                raise ValueError(f"player_{number} takes the action {action}, which its mask does not allow")
        if player == TOGETHER:
            self.states[row].apply_actions(chosen)
        else:
            self.states[row].apply_action(chosen[player])

    def _play_chance(self, rows: Array) -> None:
        """These have moved: chance moves until somebody else does, or it is over."""
        numbers = rows.tolist()
        movers = [self.states[row].current_player() for row in numbers]
        random = self.random(rows) if CHANCE in movers else None
        while random is not None and CHANCE in movers:
            for i, share in enumerate(random.uniform(0.0, 1.0).tolist()):
                if movers[i] == CHANCE:
                    state = self.states[numbers[i]]
                    outcomes, chances = zip(*state.chance_outcomes(), strict=True)
                    place = bisect_right(list(accumulate(chances)), share)
                    state.apply_action(outcomes[min(place, len(outcomes) - 1)])
                    movers[i] = state.current_player()
        self._movers[rows], self._stale[rows] = movers, True

    def observe(self) -> ByGroup:
        rows = np.flatnonzero(self._stale)
        tensors = [getattr(self.states[row], f"{self.tensor}_tensor") for row in rows.tolist()]
        shown = [tensor(player) for tensor in tensors for player in range(self.players)]
        self._shown[rows] = np.array(shown, np.float32).reshape(len(rows), *self._shown.shape[1:])
        self._stale[:] = False
        return {GROUP: self._shown.copy()}

    def acting(self) -> ByGroup:
        movers = self._movers[:, None]
        return {GROUP: (movers == TOGETHER) | (movers == np.arange(self.players))}

    def action_masks(self) -> ByGroup:
        """Whoever waits is told nothing: all is allowed."""
        rows, players = np.nonzero(self.acting()[GROUP])
        legal = [
            self.states[row].legal_actions(player) for row, player in zip(rows.tolist(), players.tolist(), strict=True)
        ]
        counts = np.array([len(each) for each in legal], np.int64)
        self._allowed[:] = True
        self._allowed[rows, players] = False
        self._allowed[rows.repeat(counts), players.repeat(counts), list(chain.from_iterable(legal))] = True
        return {GROUP: self._allowed.copy()}

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> Tree:
        """And how each copy came where it is."""
        return {**super().snapshot(), "history": tuple(np.array(state.history(), np.int64) for state in self.states)}

    def restore(self, tree: Tree) -> None:
        """Every copy makes its moves again."""
        super().restore({key: value for key, value in tree.items() if key != "history"})
        self.states = [replayed(self.game, moves.tolist()) for moves in tree["history"]]
        self._play_chance(self._everyone)
        self._earned = self._payoffs(self._everyone)
        self.action_masks()


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
