"""One array of a Fragment, of all sequences that a buffer holds: how it is written, and how some of them are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shoal.base.transfer import to_device


@dataclass
class Draw:
    """Which sequences are drawn, and their records."""

    places: np.ndarray
    records: np.ndarray
    _there: Tensor | None = None

    def places_on(self, device: torch.device) -> Tensor:
        """They go over once."""
        if self._there is None:
            self._there = to_device(torch.from_numpy(self.places), device)
        return self._there


class Column(ABC):
    """One array of all sequences."""

    @abstractmethod
    def write(self, place: int, values: np.ndarray, valid: np.ndarray) -> None:
        """So many sequences from `place` on, shaped as a Fragment has them, as is `valid`."""

    @abstractmethod
    def drawn(self, draw: Draw) -> Any:
        """A copy of those drawn, shaped as a Fragment has them: numpy or, where they lie on a device, a tensor of it."""

    @abstractmethod
    def draw_into(self, draw: Draw, out: np.ndarray) -> None:
        """The same, into an array of that shape."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """All that it holds, by name, to save."""

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Hold these, shaped as `arrays`."""
        for name, own in self.arrays().items():
            own[...] = arrays[name]

    @property
    def nbytes(self) -> int:
        """Beside the records."""
        return sum(array.nbytes for array in self.arrays().values())


class ArrayColumn(Column):
    """Sequences along `axis` of an array of its own, or of a view of the records."""

    def __init__(self, array: np.ndarray, axis: int, field: str | None = None) -> None:
        self._array, self._axis, self._field = array, axis, field

    def write(self, place: int, values: np.ndarray, valid: np.ndarray) -> None:
        stop = place + values.shape[self._axis]
        self._array[(slice(None),) * self._axis + (slice(place, stop),)] = values

    def drawn(self, draw: Draw) -> np.ndarray:
        if self._field is None:
            return self._array.take(draw.places, self._axis)
        return np.ascontiguousarray(draw.records[self._field].swapaxes(0, self._axis))

    def draw_into(self, draw: Draw, out: np.ndarray) -> None:
        if self._field is None:
            self._array.take(draw.places, self._axis, out, mode="clip")  # `raise` would copy twice
        else:
            out[...] = draw.records[self._field].swapaxes(0, self._axis)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"": self._array}

    @property
    def nbytes(self) -> int:
        return super().nbytes if self._field is None else 0
