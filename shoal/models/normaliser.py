"""Observations on one scale: running mean and variance, kept by the trainer, applied by all.

The statistics are buffers and so part of a version: trainers call `update`, actors only `forward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box
from torch import Tensor, nn

from shoal.api.algorithm import NonFiniteError
from shoal.base.device import on_cpu
from shoal.base.tree import Tree
from shoal.models.tree import Path, leaf_at, leaf_spaces

CLIP = 10.0
EPSILON = 1e-8


class Moments(nn.Module):
    """Mean and variance of one leaf. `scale` follows from the variance; it is kept to save `forward` the work."""

    mean: Tensor
    variance: Tensor
    scale: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))
        self.register_buffer("scale", torch.ones(shape))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """`[..., *shape]` -> the same with zero mean and unit variance, clipped; before any update the input itself."""
        if torch.compiler.is_compiling():  # `torch.export` cannot follow a branch on data; without one it is slower
            return torch.where(self.count > 0, self._scaled(x), x)
        if not on_cpu(x):  # nor does a device wait for one
            return torch.where(self.count > 0, self._scaled(x), x)
        return self._scaled(x) if self.count else x

    def _scaled(self, x: Tensor) -> Tensor:
        return (x - self.mean).mul_(self.scale).clamp_(-CLIP, CLIP)

    def sums(self, rows: Tensor) -> Tensor:
        """Of rows `[N, *shape]`, float64 `[1 + 2 * size]`: count, sum and sum of squares of their offsets from the mean."""
        count = torch.full((1,), len(rows), dtype=torch.float64, device=rows.device)
        excess = rows.double().reshape(len(rows), self.mean.numel()) - self.mean.double().flatten()
        return torch.cat([count, excess.sum(0), excess.square().sum(0)])

    def merge(self, sums: Tensor) -> None:
        """Chan et al. (1979), equation 2.1, with sums taken about the old mean."""
        count, total, squares = sums[0], *sums[1:].view(2, *self.mean.shape)
        if not count:
            return
        everything = self.count + count
        shift = total / everything
        spread = self.variance * self.count + squares - everything * shift.square()
        self.mean.copy_(self.mean + shift)
        self.variance.copy_((spread / everything).clamp_(min=0))
        self.scale.copy_((self.variance + EPSILON).rsqrt())
        self.count.copy_(everything)


class ObservationNormaliser(nn.Module):
    """Float Boxes with fewer than three axes are normalised and clipped to +-10; all else passes through."""

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        leaves = [(path, leaf) for path, leaf in leaf_spaces(space) if _is_normalised(leaf)]
        self.by_path: dict[Path, Moments] = {path: Moments(leaf.shape or ()) for path, leaf in leaves}
        self.moments = nn.ModuleList(self.by_path.values())

    def forward(self, observation: Tree) -> Tree:
        """A tree of `[..., *leaf.shape]` with the same shapes."""
        return self._walk(observation, ())

    def _walk(self, tree: Tree, path: Path) -> Tree:
        if isinstance(tree, dict):
            return {key: self._walk(part, (*path, key)) for key, part in tree.items()}
        if isinstance(tree, tuple):
            return tuple(self._walk(part, (*path, i)) for i, part in enumerate(tree))
        moments = self.by_path.get(path)
        return tree if moments is None else moments(tree)

    @torch.no_grad()
    def update(self, observation: Tree, valid: Tensor, mean: Callable[[Tensor], Tensor]) -> None:
        """Take in the rows of `[R, B, ...]` where `valid` `[R, B]`.

        `mean` averages a float64 vector over the trainer's replicas; it is called once. What is averaged are counts and
        sums, about a mean that all replicas share, so all merge the same numbers and stay equal. Counts are then those
        of an average replica: the weight of a batch against the past is what it would be in one trainer that saw all.

        Raises NonFiniteError, on all replicas alike, if an observation was NaN or infinite; nothing is merged then.
        """
        if not self.by_path:
            return
        places = valid.flatten().nonzero().squeeze(1)
        leaves = {path: leaf_at(observation, path).flatten(0, 1) for path in self.by_path}
        sums = [moments.sums(leaves[path].index_select(0, places)) for path, moments in self.by_path.items()]
        parts = mean(torch.cat(sums)).split([len(part) for part in sums])
        for part, path in zip(parts, self.by_path, strict=True):
            if not part.isfinite().all():
                raise NonFiniteError(f"{'/'.join(map(str, ('observation', *path)))}: a value is NaN or infinite")
        for part, moments in zip(parts, self.by_path.values(), strict=True):
            moments.merge(part)


def _is_normalised(space: Space[Any]) -> bool:
    return isinstance(space, Box) and np.issubdtype(space.dtype, np.floating) and len(space.shape) < 3
