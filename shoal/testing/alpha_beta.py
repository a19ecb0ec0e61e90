"""A player of Connect Four that looks four moves ahead, to measure others by: `--against shoal.testing.alpha_beta:connect_four`.

Knuth and Moore 1975. Wins within its depth count most, sooner ones more; else what lies open: each line of four that only one side
has stones in, by how many. Of moves that are equally good it draws one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from shoal.api.env import Array
from shoal.envs.native.connect_four import BITS, COLUMNS, DIRECTIONS, ROWS

DEPTH = 4
WON = 10_000
WORTH = (0, 1, 4, 16, 0)
"""Of a line of four with so many stones of one side and none of the other."""
ORDER = sorted(range(COLUMNS), key=lambda column: abs(column - COLUMNS // 2))
"""The middle first: good moves early cut off more."""
_BOARD = sum(1 << int(bit) for bit in BITS.flat)
_FLOOR = [1 << column * (ROWS + 1) for column in range(COLUMNS)]
_COLUMN = [((1 << ROWS) - 1) << column * (ROWS + 1) for column in range(COLUMNS)]
_LINES = [
    line
    for step in DIRECTIONS
    for start in range(COLUMNS * (ROWS + 1))
    if (line := sum(1 << start + step * place for place in range(4))) & _BOARD == line
]


def connect_four(observation: Array, action_mask: Array | None, noise: Array) -> Array:
    """Boards `[B, row, column, (own, other)]` -> columns."""
    stones = (observation.astype(np.int64) << BITS[..., None]).sum(axis=(1, 2))
    chosen = np.zeros(len(stones), np.int64)
    for row, (own, other) in enumerate(stones.tolist()):
        best = best_moves(own, other) if own.bit_count() <= other.bit_count() else ()  # else it waits
        chosen[row] = best[int(noise[row, 0] * len(best))] if best else _allowed(action_mask, row)
    return chosen


def _allowed(action_mask: Array | None, row: int) -> int:
    return 0 if action_mask is None else int(action_mask[row].argmax())


@lru_cache(maxsize=200_000)
def best_moves(own: int, other: int, depth: int = DEPTH) -> tuple[int, ...]:
    """All columns that are equally good and better than the others; none on a full board or where it is over."""
    best, found = -2 * WON, []
    if _four(other) or _four(own):
        return ()
    for column, bit in _moves(own | other):
        if _four(own | bit):
            value = WON + depth
        else:  # one less than the best: so what equals it is told apart from what is worse
            value = -_value(other, own | bit, depth - 1, -2 * WON, 1 - best)
        if value > best:
            best, found = value, [column]
        elif value == best:
            found.append(column)
    return tuple(found)


def _value(own: int, other: int, depth: int, low: int, high: int) -> int:
    """Of a board to whoever moves; right between `low` and `high`, beyond them a bound."""
    if not depth:
        return _open_lines(own, other)
    best = None
    for _, bit in _moves(own | other):
        if _four(own | bit):
            return WON + depth
        value = -_value(other, own | bit, depth - 1, -high, -low)
        best = value if best is None else max(best, value)
        low = max(low, best)
        if low >= high:
            break
    return 0 if best is None else best


def _moves(filled: int) -> list[tuple[int, int]]:
    """Columns with room, and where a stone comes to lie."""
    lands = ((column, (filled + _FLOOR[column]) & _COLUMN[column]) for column in ORDER)
    return [(column, bit) for column, bit in lands if bit]


def _four(stones: int) -> bool:
    """Four in a row."""
    for step in DIRECTIONS:
        pairs = stones & stones >> step
        if pairs & pairs >> 2 * step:
            return True
    return False


def _open_lines(own: int, other: int) -> int:
    score = 0
    for line in _LINES:
        mine, theirs = own & line, other & line
        if not theirs:
            score += WORTH[mine.bit_count()]
        elif not mine:
            score -= WORTH[theirs.bit_count()]
    return score
