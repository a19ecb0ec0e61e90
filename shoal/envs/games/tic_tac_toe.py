"""`shoal/tic-tac-toe`: three in a row on nine cells."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from shoal.api.env import Array
from shoal.envs.games.rules import OVER, Rules
from shoal.envs.games.table_env import TableEnv

_ROWS = [(3 * i, 3 * i + 1, 3 * i + 2) for i in range(3)] + [(i, i + 3, i + 6) for i in range(3)]
LINES = [sum(1 << cell for cell in line) for line in [*_ROWS, (0, 4, 8), (2, 4, 6)]]
"""Three in a row, as bits."""
FULL = (1 << 9) - 1


class Board(NamedTuple):
    """The cells of each player, as bits."""

    first: int = 0
    second: int = 0


class TicTacToe(Rules):
    """Two players in turn; three in a row win 1 and cost the other 1, a full board is a draw. Best play draws."""

    players, actions = 2, 9

    def start(self) -> Board:
        return Board()

    def mover(self, state: Board) -> int:
        if self._won(state.first) or self._won(state.second) or (state.first | state.second) == FULL:
            return OVER
        return (state.first | state.second).bit_count() % 2

    @staticmethod
    def _won(cells: int) -> bool:
        return any(cells & line == line for line in LINES)

    def legal(self, state: Board) -> list[int]:
        return [cell for cell in range(9) if not (state.first | state.second) >> cell & 1]

    def follow(self, state: Board, action: int) -> Board:
        bit = 1 << action
        return Board(state.first, state.second | bit) if self.mover(state) else Board(state.first | bit, state.second)

    def payoff(self, state: Board) -> tuple[float, ...]:
        won = float(self._won(state.first)) - float(self._won(state.second))
        return won, -won

    def knows(self, state: Board, player: int) -> Hashable:
        return state

    def see(self, state: Board, player: int) -> Array:
        """`[row, column, (own, other)]`."""
        cells = np.array([[state[side] >> cell & 1 for side in (player, 1 - player)] for cell in range(9)])
        return cells.reshape(3, 3, 2)

    def describe(self, seen: Array) -> str:
        """Free cells have their numbers."""
        own, other = seen.reshape(9, 2).T
        cells = ["x" if own[cell] else "o" if other[cell] else str(cell + 1) for cell in range(9)]
        return "\n".join(" ".join(cells[line : line + 3]) for line in (0, 3, 6)) + "\nyou play x"

    def action_names(self) -> list[str]:
        return [str(cell + 1) for cell in range(9)]


class TicTacToeEnv(TableEnv):
    """Tic-tac-toe."""

    rules = TicTacToe
