"""Columns whose contents lie on a device: what is new goes over once, and of a draw the places alone.

Arrays are laid out as on the CPU, so that states know no device.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from shoal.base.transfer import to_device
from shoal.buffers.column import Column, Draw
from shoal.buffers.stacks import Stack, StackColumn


class DeviceColumn(Column):
    """Sequences along `axis` of a tensor of this shape."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, axis: int, device: torch.device) -> None:
        self._held, self._axis = _zeros(shape, dtype, device), axis

    def write(self, place: int, values: np.ndarray, valid: np.ndarray) -> None:
        new = to_device(torch.from_numpy(np.ascontiguousarray(values)), self._held.device)
        self._held.narrow(self._axis, place, values.shape[self._axis]).copy_(new)

    def drawn(self, draw: Draw) -> Tensor:
        return self._held.index_select(self._axis, draw.places_on(self._held.device))

    def draw_into(self, draw: Draw, out: np.ndarray) -> None:
        raise NotImplementedError("a draw stays on its device")

    def arrays(self) -> dict[str, np.ndarray]:
        return {"": self._held.cpu().numpy()}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self._held.copy_(torch.from_numpy(arrays[""]))

    @property
    def nbytes(self) -> int:
        return self._held.nbytes


class DeviceStackColumn(StackColumn):
    """Stacks of which each image goes over once. Which images a stack is made of is kept on the CPU."""

    def __init__(self, example: np.ndarray, sequences: int, stack: Stack, device: torch.device) -> None:
        super().__init__(example, sequences, stack)
        self._held = _zeros(self._images.shape, example.dtype, device)
        self._shape, self._images = self._images.shape, self._images[:0]

    def _put(self, lanes: np.ndarray, numbers: np.ndarray, images: np.ndarray) -> None:
        if not len(images):
            return
        places = torch.from_numpy(lanes * self._room + numbers)
        there = to_device({"places": places, "images": torch.from_numpy(images)}, self._held.device)
        self._held.flatten(0, 1).index_copy_(0, there["places"], there["images"])

    def drawn(self, draw: Draw) -> Tensor:
        places = self._places(draw)
        there = to_device(torch.from_numpy(places.reshape(-1)), self._held.device)
        return self._held.flatten(0, 1).index_select(0, there).view(*places.shape, *self._shape[2:])

    def draw_into(self, draw: Draw, out: np.ndarray) -> None:
        raise NotImplementedError("a draw stays on its device")

    def arrays(self) -> dict[str, np.ndarray]:
        return {"images": self._held.cpu().numpy(), "index": self._index}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self._held.copy_(torch.from_numpy(arrays["images"]))
        self._index[...] = arrays["index"]

    @property
    def nbytes(self) -> int:
        return self._held.nbytes + self._index.nbytes


def _zeros(shape: tuple[int, ...], dtype: np.dtype, device: torch.device) -> Tensor:
    return torch.zeros(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype, device=device)
