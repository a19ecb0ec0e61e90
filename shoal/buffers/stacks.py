"""Stacks of images, each image kept once: row t+1 shows what row t showed, without the oldest, and one more.

Nothing is taken on trust: images are compared. A row that does not go on from the one before it, as at the start of an
episode, is kept image by image; black ones and repeated ones, with which environments fill the first stacks, cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.base.errors import ShoalError
from shoal.buffers.column import Column, Draw

BLACK = 0
"""Of every sequence's images the first, all zeros."""


@dataclass(frozen=True)
class Stack:
    """What is known of observations that are stacks."""

    images: int
    """In one observation, the oldest first."""
    bootstrap: int = 1
    """Rows that count behind the last valid one; what lies further behind was never filled."""

    def room(self, rows: int) -> int:
        """Images that a sequence of so many rows needs: the first row's, one more for each other, and a black one."""
        return rows + self.images

    def nbytes(self, example: np.ndarray) -> int:
        """Of one sequence of `[R, B, images, ...]`."""
        room = self.room(len(example))
        return room * example[0, 0, 0].nbytes + len(example) * self.images * index_dtype(room).itemsize


class StackColumn(Column):
    """`example`: `[R, B, images, ...]`."""

    def __init__(self, example: np.ndarray, sequences: int, stack: Stack) -> None:
        self._rows, self._stack = len(example), stack
        self._room = stack.room(self._rows)
        self._images = np.zeros((sequences, self._room, *example.shape[3:]), example.dtype)
        self._index = np.zeros((self._rows, sequences, stack.images), index_dtype(self._room))

    def write(self, place: int, values: np.ndarray, valid: np.ndarray) -> None:
        index, new = numbered(values)
        over = index >= self._room
        if over.any():
            self._check(over, valid)
            index[over], new = BLACK, new & ~over
        lanes = values.shape[1]
        rows, lane, image = np.nonzero(new)
        self._put(place + lane, index[new], values[rows, lane, image])
        self._index[:, place : place + lanes] = index

    def _put(self, lanes: np.ndarray, numbers: np.ndarray, images: np.ndarray) -> None:
        """Images of these sequences, by their numbers."""
        self._images[lanes, numbers] = images

    def _check(self, over: np.ndarray, valid: np.ndarray) -> None:
        """Rows that were never filled hold anything, and need not come back."""
        last = self._rows - 1 - valid[::-1].argmax(0)
        row = np.arange(self._rows)[:, None]
        if (over.any(2) & (row <= last + self._stack.bootstrap)).any():
            raise ShoalError(
                f"observations are no stacks of {self._stack.images} images that move on by one at each step, as the environment's "
                f"AgentGroup.stacked = {self._stack.images} says: set it to 0, and they are kept whole"
            )

    def drawn(self, draw: Draw) -> Any:
        return self._flat.take(self._places(draw), 0)

    def draw_into(self, draw: Draw, out: np.ndarray) -> None:
        self._flat.take(self._places(draw), 0, out, mode="clip")  # `raise` would copy twice

    @property
    def _flat(self) -> np.ndarray:
        return self._images.reshape(-1, *self._images.shape[2:])

    def _places(self, draw: Draw) -> np.ndarray:
        """Of images, `[R, B, images]`."""
        return self._index.take(draw.places, 1) + (draw.places * self._room)[:, None]

    def arrays(self) -> dict[str, np.ndarray]:
        return {"images": self._images, "index": self._index}


def numbered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`[R, B, images, ...]` -> which of its lane's images each is, and whether it is the first of that number."""
    moved, black, repeated = compared(_words(values))
    new = ~(black | repeated)
    new[moved, :-1] = False
    lanes_first = new.swapaxes(0, 1)
    number = np.cumsum(lanes_first.reshape(len(lanes_first), -1), 1).reshape(lanes_first.shape).swapaxes(0, 1)
    index = np.where(new, number, BLACK)
    for row in range(len(index)):
        np.copyto(index[row, :, :-1], index[row - 1, :, 1:], where=moved[row, :, None])
        for image in range(1, index.shape[2]):
            np.copyto(index[row, :, image], index[row, :, image - 1], where=repeated[row, :, image])
    return index, new


def compared(words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`[R, B, images, words]` -> rows that go on from the one before, `[R, B]`; of the others, `[R, B, images]`: images that
    are black, and those that are like the one before."""
    moved = np.zeros(words.shape[:2], bool)
    moved[1:] = (words[1:, :, :-1] == words[:-1, :, 1:]).all((2, 3))
    black, repeated = np.zeros(words.shape[:3], bool), np.zeros(words.shape[:3], bool)
    alone = words[~moved]
    black[~moved] = ~alone.any(2)
    inside = np.zeros(alone.shape[:2], bool)
    inside[:, 1:] = (alone[:, 1:] == alone[:, :-1]).all(2)
    repeated[~moved] = inside
    return moved, black, repeated


def _words(values: np.ndarray) -> np.ndarray:
    """The bits of each image, so that what counts as equal comes back the same; in eights of bytes where they fit."""
    flat = np.ascontiguousarray(values).reshape(*values.shape[:3], -1).view(np.uint8)
    return flat if flat.shape[-1] % 8 else flat.view(np.uint64)


def index_dtype(room: int) -> np.dtype:
    """The smallest that numbers so many images."""
    return np.min_scalar_type(room - 1)
