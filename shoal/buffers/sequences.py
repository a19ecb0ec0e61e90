"""What every replay buffer is: fragments in, batches of their sequences out, the oldest forgotten first.

A *sequence* is one lane of a fragment: all its rows, and the recurrent state before them. All memory is taken at the start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Metric
from shoal.base.tree import Tree, tree_leaves, tree_map

PER_LANE = ("state", "lanes")
"""Fields of a Fragment whose first axis is the lane; of the others it is the second."""


class Drawn(NamedTuple):
    """What was drawn, `[B]` each."""

    keys: np.ndarray
    """int64: what new priorities are reported under."""
    chances: np.ndarray
    """float64: of each, to be the one that is drawn; over all sequences held they add up to 1."""


class SequenceReplay(ABC):
    """Keeps the last `sequences` sequences. Of valid rows, always: inserted = held + evicted. A subclass says which are drawn.

    `example` gives shapes and dtypes: a Fragment of one lane or more, whatever it holds.
    """

    def __init__(self, example: Fragment, sequences: int, *, seed: int, slot: int = 0) -> None:
        self.sequences, self._seed, self._slot = sequences, seed, slot
        self._columns = {name: tree_map(_for(name, sequences), getattr(example, name)) for name in _names()}
        self._rows = np.zeros(sequences, np.int64)
        self._next = self.inserted = self.evicted = 0

    @property
    def held(self) -> int:
        """Valid rows that can be sampled."""
        return int(self._rows.sum())

    @property
    def filled(self) -> int:
        """Sequences that can be sampled."""
        return min(self._next, self.sequences)

    @property
    def nbytes(self) -> int:
        """Bytes of all sequences, filled or not."""
        return sum(leaf.nbytes for _, leaf in tree_leaves(self._columns))

    def insert(self, fragment: Fragment) -> np.ndarray:
        """Copy every lane that has something to learn from, and name these; the oldest sequences make room."""
        rows = np.count_nonzero(fragment.valid, 0)
        lanes = np.flatnonzero(rows)
        for start in range(0, len(lanes), self.sequences):
            self._write(fragment, lanes[start : start + self.sequences], rows)
        return lanes

    def _write(self, fragment: Fragment, lanes: np.ndarray, rows: np.ndarray) -> None:
        places = (self._next + np.arange(len(lanes))) % self.sequences
        for name, column in self._columns.items():
            tree_map(_copy(name, places, lanes), column, getattr(fragment, name))
        self.evicted += int(self._rows[places].sum())
        self.inserted += int(rows[lanes].sum())
        self._rows[places] = rows[lanes]
        self._next += len(lanes)

    @abstractmethod
    def sample(self, sequences: int, update: int, steps: int = 0) -> Fragment:
        """`[R, sequences, ...]`, with repetition: a function of the seed, `update`, `steps` and what is held.

        `steps`: environment steps behind it, which schedules follow.
        """

    def sample_into(self, batch: Fragment, update: int) -> Drawn:
        """Fill `batch`, `[R, B, ...]`, with what `sample` would give; what it weighs is left to whoever has the other shards."""
        places = self._places(len(batch.lanes), update)
        for name, column in self._columns.items():
            tree_map(_pick(name, places), column, getattr(batch, name))
        return Drawn(self._keys(places), self._chances(places))

    @abstractmethod
    def _places(self, sequences: int, update: int) -> np.ndarray:
        """Where the sequences of a draw lie."""

    @abstractmethod
    def _chances(self, places: np.ndarray) -> np.ndarray:
        """Of the sequences that lie there, to be drawn."""

    def _keys(self, places: np.ndarray) -> np.ndarray:
        return self._next - 1 - (self._next - 1 - places) % self.sequences

    @abstractmethod
    def revalue(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """New priorities, `[B]` each, of what was drawn. Key k is the k-th sequence ever inserted."""

    def _drawn(self, places: np.ndarray) -> Fragment:
        return Fragment(**{name: tree_map(_pick(name, places), column) for name, column in self._columns.items()})

    def metrics(self) -> dict[str, Metric]:
        """How full it is."""
        return {"replay/held": Last(self.held), "replay/evicted": Last(self.evicted)}

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that is held, and the counts."""
        state = {path: leaf.copy() for path, leaf in tree_leaves(self._columns, "columns")}
        counts = np.array([self._next, self.inserted, self.evicted])
        return {**state, "rows": self._rows.copy(), "counts": counts}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state_dict` of a buffer of equal size and layout."""
        own = {**dict(tree_leaves(self._columns, "columns")), "rows": self._rows}
        for path, leaf in own.items():
            if state[path].shape != leaf.shape or state[path].dtype != leaf.dtype:
                raise ValueError(f"the replay's {path} is {leaf.dtype} {leaf.shape}, not {state[path].shape}")
        for path, leaf in own.items():
            leaf[...] = state[path]
        self._next, self.inserted, self.evicted = state["counts"].tolist()


def replay_nbytes(example: Fragment, sequences: int) -> int:
    """Bytes that so many sequences would take, without taking them."""
    return sum(_nbytes(name, leaf) for name in _names() for _, leaf in tree_leaves(getattr(example, name))) * sequences


def _nbytes(name: str, leaf: np.ndarray) -> int:
    return leaf.nbytes // leaf.shape[0 if name in PER_LANE else 1]


def _names() -> list[str]:
    return [field.name for field in fields(Fragment)]


def _for(name: str, sequences: int) -> Callable[[np.ndarray], np.ndarray]:
    """An example's array -> the same for so many sequences."""

    def column(leaf: np.ndarray) -> np.ndarray:
        shape = (sequences, *leaf.shape[1:]) if name in PER_LANE else (leaf.shape[0], sequences, *leaf.shape[2:])
        return np.zeros(shape, leaf.dtype)

    return column


def _copy(name: str, places: np.ndarray, lanes: np.ndarray) -> Callable[[np.ndarray, Any], None]:
    def copy(column: np.ndarray, values: Tree) -> None:
        if name in PER_LANE:
            column[places] = values[lanes]
        else:
            column[:, places] = values[:, lanes]

    return copy


def _pick(name: str, places: np.ndarray) -> Callable[..., np.ndarray]:
    """A column -> what lies there; into arrays of its own, or into those given."""
    axis = 0 if name in PER_LANE else 1
    return lambda column, *out: column.take(places, axis, *out, mode="clip")  # `raise` would copy twice
