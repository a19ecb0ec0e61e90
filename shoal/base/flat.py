"""All parameters and buffers of a module in one block of bytes.

One copy publishes a version, one norm clips, one fused optimiser step moves everything. The module's tensors become views of
the block, so the module works as before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from shoal.base.device import on_cpu
from shoal.base.transfer import cpu_memory

_ALIGN = 64


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


class Flat:
    """Lays `module` out in one block: float parameters first, contiguous, then buffers, each aligned.

    block       uint8 [nbytes]: everything, what a version is
    parameters  float [n]: all trainable numbers, a view of the block
    gradients   float [n]: where autograd accumulates; every `.grad` is a view of it
    """

    def __init__(self, module: nn.Module, *, gradients: bool) -> None:
        self.module = module
        self._copy: Tensor | None = None
        """Of the block, on the CPU, where it lies on a device."""
        parameters, buffers = list(module.parameters()), list(module.buffers())
        dtypes = {p.dtype for p in parameters} or {torch.float32}
        if len(dtypes) != 1:
            raise TypeError(f"parameters of one dtype are needed, got {sorted(map(str, dtypes))}")
        dtype = dtypes.pop()
        device = next((tensor.device for tensor in (*parameters, *buffers)), torch.device("cpu"))
        count = sum(p.numel() for p in parameters)
        size = _padded(count * dtype.itemsize) + sum(_padded(b.numel() * b.dtype.itemsize) for b in buffers)
        self.block = torch.zeros(size, dtype=torch.uint8, device=device)
        self.parameters = self.block[: count * dtype.itemsize].view(dtype)
        self.gradients = torch.zeros_like(self.parameters) if gradients else None
        self._move(fill=True)

    def adopt(self, block: Tensor, *, fill: bool) -> None:
        """Lie in `block` from now on (uint8 `[nbytes]`), for example in shared memory; gradients stay where they are.

        `fill`: with the numbers held so far. Otherwise with those that are there.
        """
        if block.dtype != torch.uint8 or block.shape != self.block.shape:
            raise ValueError(f"uint8 {list(self.block.shape)} is needed, got {block.dtype} {list(block.shape)}")
        size, dtype = self.parameters.nbytes, self.parameters.dtype
        self.block = block
        self.parameters = block[:size].view(dtype)
        self._move(fill=fill)

    def to(self, device: torch.device) -> None:
        """Lie on another device from now on, with the same numbers; gradients begin at zero there."""
        if self.block.device == device:
            return
        if self.gradients is not None:
            self.gradients = torch.zeros_like(self.gradients, device=device)
        self.adopt(self.block.to(device), fill=False)

    def _move(self, *, fill: bool) -> None:
        """Make every tensor of the module a view of the block."""
        self._move_parameters(fill=fill)
        self._move_buffers(_padded(self.parameters.nbytes), fill=fill)

    def _move_parameters(self, *, fill: bool) -> None:
        start = 0
        for name, parameter in list(self.module.named_parameters()):
            stop = start + parameter.numel()
            view = self.parameters[start:stop].view(parameter.shape)
            if fill:
                view.copy_(parameter.data)
            if parameter.device == view.device:
                parameter.data = view
            else:
                parameter = self._replace(name, parameter, view)
            if self.gradients is not None:
                parameter.grad = self.gradients[start:stop].view(parameter.shape)
            else:
                parameter.requires_grad_(False)
            start = stop

    def _replace(self, name: str, old: nn.Parameter, view: Tensor) -> nn.Parameter:
        """A parameter stays on its device: where it is to lie on another, a new one takes its place, wherever it was used."""
        new = nn.Parameter(view.data)  # what is written to its neighbours in the block is no change of it
        for each, other in list(self.module.named_parameters(remove_duplicate=False)):
            if other is old:
                owner, _, leaf = each.rpartition(".")
                setattr(self.module.get_submodule(owner), leaf, new)
        return new

    def _move_buffers(self, start: int, *, fill: bool) -> None:
        for name, buffer in list(self.module.named_buffers()):
            size = buffer.numel() * buffer.dtype.itemsize
            view = self.block[start : start + size].view(buffer.dtype).view(buffer.shape)
            if fill:
                view.copy_(buffer)
            owner, _, leaf = name.rpartition(".")
            self.module.get_submodule(owner)._buffers[leaf] = view
            start += _padded(size)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter, in the order in which they lie."""
        return {name: tuple(parameter.shape) for name, parameter in self.module.named_parameters()}

    @property
    def nbytes(self) -> int:
        """Bytes of one version."""
        return self.block.numel()

    def load(self, block: Tensor) -> None:
        """Take over another version of the same module."""
        self.block.copy_(block)

    def version(self) -> np.ndarray:
        """uint8 `[nbytes]` to publish: the block itself or, from a device, a copy that is good until the next call."""
        if on_cpu(self.block):
            return self.block.numpy()
        return self._beside().copy_(self.block).numpy()

    def read(self, fill: Callable[[np.ndarray], bool]) -> bool:
        """Let `fill` write another version over this one; False: it did not."""
        if on_cpu(self.block):
            return fill(self.block.numpy())
        copy = self._beside()
        if not fill(copy.numpy()):
            return False
        self.block.copy_(copy)
        return True

    def _beside(self) -> Tensor:
        if self._copy is None:
            self._copy = cpu_memory(self.nbytes, self.block.device)
        return self._copy
