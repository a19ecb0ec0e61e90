"""How a batch is cut into minibatches: single rows for models without memory, whole lanes for recurrent ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from shoal.algorithms.rows import places_of, taken
from shoal.api.algorithm import Task
from shoal.api.fragment import PER_LANE, Fragment
from shoal.base.device import CPU
from shoal.base.transfer import to_device
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
    places: Tensor | None = None
    """int64 `[N]`: where `valid` is true, in a batch that is not cut yet."""

    @property
    def rows(self) -> int:
        """How many rows there are to learn from."""
        if self.places is not None:
            return len(self.places)
        return self.action.shape[1] if self.valid is None else int(self.valid.sum())


COLUMNS = ("observation", "action", "log_prob", "advantage", "target", "value", "first", "action_mask")

Batch = TypeVar("Batch", Experience, Fragment)


class Minibatches(ABC, Generic[Batch]):
    """Gives the minibatches of one epoch after another.

    Always as many as there should be, some of them empty if need be: replicas of a trainer take the same number of steps.
    """

    @abstractmethod
    def epoch(self, random: np.random.Generator) -> Iterator[Batch]:
        """All of the batch once, in a new order."""


class RowMinibatches(Minibatches[Experience]):
    """Valid rows in any order, cut into `count` parts that differ by one row at most."""

    def __init__(self, batch: Experience, count: int) -> None:
        assert batch.valid is not None
        keep = places_of(batch.valid) if batch.places is None else batch.places

        self._rows = _map(batch, lambda tensor: taken(tensor, keep))
        self._size = len(keep)
        self._sizes = part_sizes(self._size, count)

    def epoch(self, random: np.random.Generator) -> Iterator[Experience]:
        if len(self._sizes) == 1:  # a mean over all rows has no order
            yield _map(self._rows, lambda tensor: tensor.unsqueeze(0))
            return
        order = _order(random, self._size, self._rows.action.device)

        def split(tensor: Tensor) -> list[Tensor]:
            # a third of the time that tensor[order] takes: it copies whole rows
            return list(tensor.index_select(0, order).unsqueeze(0).split(self._sizes, 1))

        shuffled = _map(self._rows, split)
        yield from (_map(shuffled, itemgetter(i)) for i in range(len(self._sizes)))


def part_sizes(rows: int, count: int) -> list[int]:
    """Of `count` parts that differ by one row at most."""
    sizes: list[int] = np.diff(np.linspace(0, rows, count + 1).astype(int)).tolist()
    return sizes


def pieces(part: Experience, rows: int) -> list[Experience]:
    """A minibatch of rows, cut into pieces of at most so many; nothing is copied."""
    cut = _map(part, lambda tensor: list(tensor.split(rows, 1)))
    return [_map(cut, itemgetter(i)) for i in range(len(cut.action))]


def _order(random: np.random.Generator, count: int, device: torch.device) -> Tensor:
    """The same on every device; on its way to another it is half as long."""
    order = torch.from_numpy(random.permutation(count))
    return order if device.type == CPU else to_device(order.int(), device)


class LaneMinibatches(Minibatches[Batch]):
    """Whole lanes with the recurrent state they began with."""

    def __init__(self, batch: Batch, count: int) -> None:
        self._batch: Batch = batch
        self._count = count

    def epoch(self, random: np.random.Generator) -> Iterator[Batch]:
        order = _order(random, self._batch.action.shape[1], self._batch.action.device)
        for lanes in torch.tensor_split(order, self._count):
            yield of_lanes(self._batch, lanes)


def of_lanes(batch: Batch, lanes: Tensor) -> Batch:
    """Some lanes of a batch, `[n]` by their place in it."""
    columns, states = itemgetter((slice(None), lanes)), itemgetter(lanes)
    own: dict[str, Any] = {
        field.name: tree_map(states if field.name in PER_LANE else columns, getattr(batch, field.name))
        for field in fields(batch)
        if field.name != "places"
    }
    if isinstance(batch, Experience):
        own["places"] = None
    return replace(batch, **own)


def _map(batch: Experience, fn: Callable[[Any], Any]) -> Experience:
    """Apply `fn` to every column; state and valid are left to the caller."""
    mapped = {name: tree_map(fn, getattr(batch, name)) for name in COLUMNS}
    return Experience(**mapped, state=None, valid=None)


def count_minibatches(minibatch: int, unroll: int, task: Task, *, recurrent: bool) -> tuple[int, tuple[str, ...]]:
    """How many parts a batch is cut into, as near to `minibatch` rows as equal parts can be; a note where that is not exact.

    Each of the trainer's replicas has `lanes / replicas` lanes and gives its share to every minibatch.
    """
    batch, lanes = task.lanes * unroll, task.lanes // task.replicas
    count = max(1, min(round(batch / minibatch), lanes if recurrent else batch // 2))
    if batch == minibatch * count and not (recurrent and lanes % count):
        return count, ()
    said = (
        f"algorithm.minibatch = {minibatch} does not divide the batch of {batch} ({task.lanes} lanes x {unroll} steps)"
    )
    said += " in whole lanes" if recurrent else ""
    return count, (
        f"{said}: it is cut into {count} of about {batch // count} rows" if count > 1 else f"{said}: it is not cut",
    )
