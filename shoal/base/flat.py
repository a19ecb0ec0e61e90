"""All parameters and buffers of a module in one block of bytes.

One copy publishes a version, one norm clips, one fused optimiser step moves everything. The module's tensors become views of
the block, so the module works as before.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
        self._module = module
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

    def _move(self, *, fill: bool) -> None:
        """Make every tensor of the module a view of the block."""
        self._move_parameters(fill=fill)
        self._move_buffers(_padded(self.parameters.nbytes), fill=fill)

    def _move_parameters(self, *, fill: bool) -> None:
        start = 0
        for parameter in self._module.parameters():
            stop = start + parameter.numel()
            view = self.parameters[start:stop].view(parameter.shape)
            if fill:
                view.copy_(parameter.data)
            parameter.data = view
            if self.gradients is not None:
                parameter.grad = self.gradients[start:stop].view(parameter.shape)
            else:
                parameter.requires_grad_(False)
            start = stop

    def _move_buffers(self, start: int, *, fill: bool) -> None:
        for name, buffer in list(self._module.named_buffers()):
            size = buffer.numel() * buffer.dtype.itemsize
            view = self.block[start : start + size].view(buffer.dtype).view(buffer.shape)
            if fill:
                view.copy_(buffer)
            owner, _, leaf = name.rpartition(".")
            self._module.get_submodule(owner)._buffers[leaf] = view
            start += _padded(size)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter, in the order in which they lie."""
        return {name: tuple(parameter.shape) for name, parameter in self._module.named_parameters()}

    @property
    def nbytes(self) -> int:
        """Bytes of one version."""
        return self.block.numel()

    def load(self, block: Tensor) -> None:
        """Take over another version of the same module."""
        self.block.copy_(block)
