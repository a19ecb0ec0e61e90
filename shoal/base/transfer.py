"""Trees of tensors between the CPU and a device: one copy for each dtype, whatever the number of tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from shoal.base.device import CPU
from shoal.base.tree import Tree, tree_leaves, tree_map

_PINNED = ("cuda", "xpu")
"""Kinds of device that fetch from memory of this sort by themselves, while the CPU goes on."""


def to_device(tree: Tree, device: torch.device) -> Tree:
    """CPU tensors -> the same on a device, where others may be already. Nobody waits; the tensors may be written to as soon as
    this returns."""
    return _moved(tree, lambda packed: packed.to(device, non_blocking=True), pinned=device.type in _PINNED, away=device)


def to_cpu(tree: Tree) -> Tree:
    """Tensors of a device -> the same on the CPU, once they are there."""
    return _moved(tree, Tensor.cpu, pinned=False, away=torch.device(CPU))


class Road:
    """The way of trees of tensors from the CPU to one device: a stream of its own, where the device has streams.

    So what is sent goes over while the device computes. Legal order: `send`, then `arrive` before it is used.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.Stream(device) if device.type in _PINNED else None

    @property
    def leads_away(self) -> bool:
        """To another device than the CPU."""
        return self._device.type != CPU

    def send(self, tree: Tree) -> Tree:
        """CPU tensors -> the same on the device, some time later."""
        if self._stream is None:
            return to_device(tree, self._device)
        with self._stream:
            return to_device(tree, self._device)

    def arrive(self, tree: Tree) -> None:
        """The device takes up what was sent before anything that it is told from now on. The CPU does not wait."""
        if self._stream is None:
            return
        current = torch.accelerator.current_stream(self._device)
        current.wait_stream(self._stream)
        for _, leaf in tree_leaves(tree):
            leaf.record_stream(current)  # its memory is the other stream's, and must not be given away too soon


def cpu_memory(nbytes: int, device: torch.device) -> Tensor:
    """uint8 `[nbytes]` of the CPU for copies to and from a device."""
    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=device.type in _PINNED)


def _moved(tree: Tree, send, *, pinned: bool, away: torch.device) -> Tree:  # type: ignore[no-untyped-def]
    leaves = [leaf for _, leaf in tree_leaves(tree)]
    moved = {i: leaf for i, leaf in enumerate(leaves) if leaf.device.type == away.type}
    for dtype in dict.fromkeys(leaf.dtype for i, leaf in enumerate(leaves) if i not in moved):
        own = [i for i, leaf in enumerate(leaves) if leaf.dtype == dtype and i not in moved]
        sizes = [leaves[i].numel() for i in own]
        packed = torch.empty(sum(sizes), dtype=dtype, device=leaves[own[0]].device, pin_memory=pinned)
        for place, i in zip(packed.split(sizes), own, strict=True):
            place.view(leaves[i].shape).copy_(leaves[i])
        for i, place in zip(own, send(packed).split(sizes), strict=True):
            moved[i] = place.view(leaves[i].shape)
    order = iter(range(len(leaves)))
    return tree_map(lambda _: moved[next(order)], tree)
