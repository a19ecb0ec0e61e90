"""What every replay buffer is: fragments in, batches of their sequences out, the oldest forgotten first.

A *sequence* is one lane of a fragment: all its rows, and the recurrent state before them. All memory is taken at the start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch

from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Metric
from shoal.base.seeding import Generators
from shoal.buffers.columns import HERE, Columns
from shoal.buffers.stacks import Stack


class Drawn(NamedTuple):
    """What was drawn, `[B]` each."""

    keys: np.ndarray
    """int64: what new priorities are reported under."""
    chances: np.ndarray
    """float64: of each, to be the one that is drawn; over all sequences held they add up to 1."""


class SequenceReplay(ABC):
    """Keeps the last `sequences` sequences. Of valid rows, always: inserted = held + evicted. A subclass says which are drawn.

    `example` gives shapes and dtypes: a Fragment of one lane or more, whatever it holds.
    `stack`: its observations are stacks of images, each of which is kept once. `device`: where contents lie; which sequences are
    drawn is the CPU's affair.
    """

    def __init__(
        self, example: Fragment, sequences: int, *, seed: int, slot: int = 0, stack: Stack | None = None,
        device: torch.device = HERE,
    ) -> None:  # fmt: skip
        self.sequences, self._slot = sequences, slot
        self._generators = Generators(seed, "replay")
        self._columns = Columns(example, sequences, stack, device)
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
        return self._columns.nbytes

    def insert(self, fragment: Fragment) -> np.ndarray:
        """Copy every lane that has something to learn from, and name these; the oldest sequences make room."""
        rows = np.count_nonzero(fragment.valid, 0)
        lanes = np.flatnonzero(rows)
        written = 0
        while written < len(lanes):
            place = self._next % self.sequences
            some = lanes[written : written + self.sequences - place]
            self._write(place, fragment, some, rows[some])
            written += len(some)
        return lanes

    def _write(self, place: int, fragment: Fragment, lanes: np.ndarray, rows: np.ndarray) -> None:
        """Lanes that find room from `place` to the end."""
        self._columns.write(place, fragment, lanes)
        old = self._rows[place : place + len(lanes)]
        self.evicted += int(old.sum())
        self.inserted += int(rows.sum())
        old[:] = rows
        self._next += len(lanes)

    @abstractmethod
    def sample(self, sequences: int, update: int, steps: int = 0) -> Fragment:
        """`[R, sequences, ...]`, with repetition: a function of the seed, `update`, `steps` and what is held.

        `steps`: environment steps behind it, which schedules follow.
        """

    def sample_into(self, batch: Fragment, update: int) -> Drawn:
        """Fill `batch`, `[R, B, ...]`, with what `sample` would give; weights are computed by the owner of all shards."""
        places = self._places(len(batch.lanes), update)
        self._columns.draw_into(places, batch)
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

    def _random(self, update: int) -> np.random.Generator:
        return self._generators.at(self._slot, update)

    def metrics(self) -> dict[str, Metric]:
        """How full it is."""
        return {"replay/held": Last(self.held), "replay/evicted": Last(self.evicted)}

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that is held, and the counts."""
        state = {path: leaf.copy() for path, leaf in self._columns.arrays()}
        counts = np.array([self._next, self.inserted, self.evicted])
        return {**state, "rows": self._rows.copy(), "counts": counts}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state_dict` of a buffer of equal size and layout."""
        own = {**dict(self._columns.arrays()), "rows": self._rows}
        for path, leaf in own.items():
            if state[path].shape != leaf.shape or state[path].dtype != leaf.dtype:
                raise ValueError(f"the replay's {path} is {leaf.dtype} {leaf.shape}, not {state[path].shape}")
        self._columns.load(state)
        self._rows[...] = state["rows"]
        self._next, self.inserted, self.evicted = state["counts"].tolist()
