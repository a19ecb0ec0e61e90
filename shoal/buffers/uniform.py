"""Uniform replay: every sequence that is held is drawn alike."""

from __future__ import annotations

import numpy as np

from shoal.api.fragment import Fragment
from shoal.buffers.sequences import SequenceReplay


class UniformReplay(SequenceReplay):
    """Draws evenly."""

    def sample(self, sequences: int, update: int, steps: int = 0) -> Fragment:
        return self._columns.drawn(self._places(sequences, update))

    def _places(self, sequences: int, update: int) -> np.ndarray:
        if not self.filled:
            raise ValueError("nothing to sample: insert comes first")
        return self._random(update).integers(0, self.filled, sequences)

    def _chances(self, places: np.ndarray) -> np.ndarray:
        return np.full(len(places), 1 / self.filled)

    def revalue(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """All stay alike."""
