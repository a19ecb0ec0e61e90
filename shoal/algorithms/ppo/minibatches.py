"""How a batch is cut into minibatches: single rows for models without memory, whole lanes for recurrent ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shoal.base.tree import Tree, tree_map


@dataclass
class Experience:
    """A batch ready to learn from. Arrays `[R, B, ...]`, or `[1, N, ...]` once cut to rows."""

    observation: Tree
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    value: Tensor
    first: Tensor
    action_mask: Tensor | None
    state: Tree | None
    valid: Tensor | None
    """None: every row counts."""


class Minibatches(ABC):
    """Gives the minibatches of one epoch after another."""

    @abstractmethod
    def epoch(self, random: np.random.Generator) -> Iterator[Experience]:
        """All of the batch once, in a new order."""


class RowMinibatches(Minibatches):
    """Valid rows in any order, cut into `count` parts that differ by one row at most."""

    def __init__(self, batch: Experience, count: int) -> None:
        assert batch.valid is not None
        keep = torch.nonzero(batch.valid.flatten()).squeeze(1)

        def rows(tensor: Tensor) -> Tensor:
            return tensor.flatten(0, 1)[keep]

        self._rows = _map(batch, rows, state=False)
        self._size, self._count = len(keep), count

    def epoch(self, random: np.random.Generator) -> Iterator[Experience]:
        order = torch.from_numpy(random.permutation(self._size))
        shuffled = _map(self._rows, lambda tensor: tensor[order], state=False)
        edges = np.linspace(0, self._size, self._count + 1).astype(int)
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            if start < stop:
                yield _map(
                    shuffled, lambda tensor, start=start, stop=stop: tensor[start:stop].unsqueeze(0), state=False
                )


class LaneMinibatches(Minibatches):
    """Whole lanes with the recurrent state they began with."""

    def __init__(self, batch: Experience, count: int) -> None:
        self._batch, self._count = batch, count

    def epoch(self, random: np.random.Generator) -> Iterator[Experience]:
        order = torch.from_numpy(random.permutation(self._batch.action.shape[1]))
        for lanes in torch.tensor_split(order, self._count):
            part = _map(self._batch, lambda tensor, lanes=lanes: tensor[:, lanes], state=True)
            part.valid = self._batch.valid[:, lanes] if self._batch.valid is not None else None
            part.state = tree_map(lambda tensor, lanes=lanes: tensor[lanes], self._batch.state)
            if part.valid is None or bool(part.valid.any()):
                yield part


def _map(batch: Experience, fn, *, state: bool) -> Experience:  # type: ignore[no-untyped-def]
    columns = ("observation", "action", "log_prob", "advantage", "target", "value", "first", "action_mask")
    mapped = {name: tree_map(fn, getattr(batch, name)) for name in columns}
    return Experience(**mapped, state=batch.state if state else None, valid=None)
