"""`shoal/connect-four`: PettingZoo's `classic/connect_four_v3`, move for move, many boards at once.

A board is two words of bits, one per player (Tromp's layout): a column is seven bits, the lowest its floor, the seventh
always empty, so that four in a row is four shifts and nothing wraps around.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.base.errors import InputError
from shoal.envs.drawing import COLOURS, PAPER, canvas, disc, to_image
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome

GROUP = "player"
ROWS, COLUMNS = 6, 7
BITS = np.arange(COLUMNS) * (ROWS + 1) + np.arange(ROWS)[::-1, None]
"""`[row, column]` -> bit, the top row first."""
CELL, BOARD, RED, YELLOW = 60, *(COLOURS[i] for i in (0, 1, 3))
"""Pixels of a cell, and colours."""
MOST_OPENINGS = 6
"""Three stones each win no game, and fill no column before the last."""
DIRECTIONS = (1, ROWS, ROWS + 1, ROWS + 2)
"""Up, down to the right, right, up to the right: by how many bits the next cell lies off."""


class ConnectFour(NativeEnv):
    """Two players drop stones in turn, `player_0` first; four in a row win 1 and cost the other 1, a full board is a draw.

    Everyone sees the board as `[row, column, (own, other)]`. A move into a full column cuts the game off and costs its player 1.
    With `openings` a game begins behind so many random moves at most, so that players learn more than the lines they play.
    """

    render_fps = 2.0

    def __init__(self, num_envs: int, *, first_slot: int = 0, openings: int = 0) -> None:
        if not 0 <= openings <= MOST_OPENINGS:
            raise InputError(f"env.kwargs.openings = {openings}: 0 to {MOST_OPENINGS} moves, which cannot win a game")
        space = Box(0, 1, (ROWS, COLUMNS, 2), np.int8)
        super().__init__({GROUP: AgentGroup(("player_0", "player_1"), space, Discrete(COLUMNS))}, num_envs, first_slot)
        self.arrays["stones"] = np.zeros((num_envs, 2), np.int64)
        self.arrays["height"] = np.zeros((num_envs, COLUMNS), np.int64)
        self._rows = np.arange(num_envs)
        self._openings, self._opening = openings, np.zeros(num_envs, np.int64)
        """Random moves at most, and in each game."""
        if openings:
            self.arrays["opening"] = self._opening

    def render(self, row: int) -> Array:
        """The board: `player_0` in yellow, `player_1` in red."""
        drawn = canvas(ROWS * CELL, COLUMNS * CELL, BOARD)
        stones = self.arrays["stones"][row] >> BITS[..., None] & 1
        for line, column in np.ndindex(ROWS, COLUMNS):
            first, second = stones[line, column]
            colour = YELLOW if first else RED if second else PAPER
            disc(drawn, (column + 0.5) * CELL, (line + 0.5) * CELL, 0.4 * CELL, colour)
        return to_image(drawn)

    def describe(self, agent: str, observation: Array) -> str:
        stones = np.where(observation[..., 0], "x", np.where(observation[..., 1], "o", "."))
        numbers = " ".join(self.action_names(agent))
        return "\n".join([*(" ".join(line) for line in stones.tolist()), numbers, "you play x"])

    def action_names(self, agent: str) -> list[str]:
        return [str(column + 1) for column in range(COLUMNS)]

    def begin(self, rows: Array) -> None:
        self.arrays["stones"][rows] = 0
        self.arrays["height"][rows] = 0
        if self._openings:
            self._open(rows)

    def _open(self, rows: Array) -> None:
        stones, height, random = self.arrays["stones"], self.arrays["height"], self.random(rows)
        self._opening[rows] = random.integers(self._openings + 1)
        for move, column in enumerate(random.integers(COLUMNS, self._openings)):
            played = move < self._opening[rows]
            level = height[rows, column]
            stones[rows, move % 2] |= np.where(played, 1 << (column * (ROWS + 1) + level), 0)
            height[rows, column] += played

    @property
    def _moves(self) -> Array:
        """Made so far in each game, those of the opening included."""
        return self.time + self._opening

    def advance(self, actions: ByGroup) -> Outcome:
        stones, height, rows = self.arrays["stones"], self.arrays["height"], self._rows
        mover = (self._moves - 1) % 2
        column = actions[GROUP][rows, mover]
        level = height[rows, column]
        legal = level < ROWS
        stones[rows, mover] |= np.where(legal, 1 << (column * (ROWS + 1) + level), 0)
        height[rows, column] += legal
        won = legal & _four(stones[rows, mover])
        reward = np.zeros((self.num_envs, 2))
        reward[rows, mover] = won * 1.0 - ~legal
        reward[rows, 1 - mover] = -1.0 * won
        over = won | ~legal | (self._moves == ROWS * COLUMNS)
        return self.ended_together({GROUP: reward}, over, ~legal)

    def observe(self) -> ByGroup:
        board = (self.arrays["stones"][:, None, None] >> BITS[:, :, None] & 1).astype(np.int8)
        return {GROUP: np.stack([board, board[..., ::-1]], axis=1)}

    def acting(self) -> ByGroup:
        return {GROUP: (self._moves % 2)[:, None] == np.arange(2)}

    def action_masks(self) -> ByGroup:
        """Whoever waits is told nothing: all is allowed."""
        free = self.arrays["height"] < ROWS
        return {GROUP: free[:, None] | ~self.acting()[GROUP][:, :, None]}


def _four(stones: Array) -> Array:
    """bool `[boards]`: there are four in a row."""
    found = np.zeros(len(stones), bool)
    for step in DIRECTIONS:
        pairs = stones & (stones >> step)
        found |= (pairs & (pairs >> 2 * step)) != 0
    return found
