"""How sequences lie in memory: what is small side by side in one record per sequence, what is large in arrays of its own,
and of stacks of images each image once.

A draw touches memory at random, and each touch waits: one record costs little more than one of its fields. A *column* is one
array of a Fragment, of all sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields

import numpy as np
import torch

from shoal.api.fragment import PER_LANE, Fragment
from shoal.api.sight import OWN
from shoal.base.device import CPU
from shoal.base.tree import Tree, tree_leaves, tree_map
from shoal.buffers.column import ArrayColumn, Column, Draw
from shoal.buffers.on_device import DeviceColumn, DeviceStackColumn
from shoal.buffers.stacks import Stack, StackColumn

HERE = torch.device(CPU)
SMALL = 512
"""Bytes of a sequence's array that still lies in the record."""
STACKS = ("observation", f"observation/{OWN}")
"""Where stacks of images may be."""


class Columns:
    """Room for `sequences` lanes that are shaped as those of `example`, filled with zeros. `device`: where large arrays and small
    ones lie; what is drawn is there, too."""

    def __init__(
        self, example: Fragment, sequences: int, stack: Stack | None = None, device: torch.device = HERE
    ) -> None:
        self._stack, self._device = stack, device
        self._records = np.zeros(sequences, _record(example) if device.type == CPU else np.dtype([]))
        made = {path: self._column(name, path, leaf) for name, path, leaf in _leaves(example)}
        self._tree = {name: _shaped(name, getattr(example, name), made) for name in _names()}

    def _column(self, name: str, path: str, leaf: np.ndarray) -> Column:
        axis = _axis(name)
        if path in (self._records.dtype.names or ()):
            return ArrayColumn(self._records[path].swapaxes(0, axis), axis, path)
        sequences = len(self._records)
        stack, here = _stack_of(path, leaf, self._stack), self._device.type == CPU
        if stack is not None:
            return (
                StackColumn(leaf, sequences, stack) if here else DeviceStackColumn(leaf, sequences, stack, self._device)
            )
        shape = (*leaf.shape[:axis], sequences, *leaf.shape[axis + 1 :])
        return (
            ArrayColumn(np.zeros(shape, leaf.dtype), axis)
            if here
            else DeviceColumn(shape, leaf.dtype, axis, self._device)
        )

    @property
    def nbytes(self) -> int:
        """Of all sequences, filled or not."""
        return self._records.nbytes + sum(column.nbytes for _, column in tree_leaves(self._tree))

    def write(self, place: int, fragment: Fragment, lanes: np.ndarray) -> None:
        """These lanes of a fragment, as the sequences from `place` on."""
        every, valid = len(lanes) == fragment.valid.shape[1], fragment.valid[:, lanes]
        for name, column in self._tree.items():
            axis = _axis(name)
            tree_map(
                lambda own, leaf, axis=axis: own.write(place, leaf if every else leaf.take(lanes, axis), valid),
                column, getattr(fragment, name),
            )  # fmt: skip

    def drawn(self, places: np.ndarray) -> Fragment:
        """Copies of the sequences at these places, as lanes."""
        draw = Draw(places, self._records.take(places))
        return Fragment(**{name: tree_map(lambda own: own.drawn(draw), column) for name, column in self._tree.items()})

    def draw_into(self, places: np.ndarray, batch: Fragment) -> None:
        """The same, into the arrays of a Fragment of as many lanes."""
        draw = Draw(places, self._records.take(places))
        for name, column in self._tree.items():
            tree_map(lambda own, out: own.draw_into(draw, out), column, getattr(batch, name))

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """All that is held, by name, to save."""
        for path, column in tree_leaves(self._tree, "columns"):
            for part, array in column.arrays().items():
                yield f"{path}/{part}" if part else path, array

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Hold these, by the names of `arrays`."""
        for path, column in tree_leaves(self._tree, "columns"):
            column.load({part: arrays[f"{path}/{part}" if part else path] for part in column.arrays()})


def replay_nbytes(example: Fragment, sequences: int, stack: Stack | None = None) -> int:
    """Bytes that so many sequences take."""
    record, whole = _record(example), 0
    for name, path, leaf in _leaves(example):
        if path in (record.fields or ()):
            continue
        own = _stack_of(path, leaf, stack)
        whole += leaf.nbytes // leaf.shape[_axis(name)] if own is None else own.nbytes(leaf)
    return (record.itemsize + whole) * sequences


def _stack_of(path: str, leaf: np.ndarray, stack: Stack | None) -> Stack | None:
    """Whether this array holds the stacks, if there are any."""
    return stack if path in STACKS and leaf.ndim > 2 and stack is not None else None


def _record(example: Fragment) -> np.dtype:
    """Of one sequence: every array that is small, its rows together; the largest numbers first, so that no gaps arise."""
    small = [
        (name, path, leaf) for name, path, leaf in _leaves(example) if leaf.nbytes // leaf.shape[_axis(name)] <= SMALL
    ]
    small.sort(key=lambda each: -each[2].dtype.itemsize)
    return np.dtype(
        [
            (path, leaf.dtype, (*leaf.shape[: _axis(name)], *leaf.shape[_axis(name) + 1 :]))
            for name, path, leaf in small
        ],
        align=True,
    )


def _leaves(example: Fragment) -> Iterator[tuple[str, str, np.ndarray]]:
    """Field, path and array."""
    for name in _names():
        for path, leaf in tree_leaves(getattr(example, name), name):
            yield name, path, leaf


def _shaped(path: str, example: Tree, made: dict[str, Column]) -> Tree:
    """A tree like `example`, of the columns that were made for its paths."""
    paths = iter([path for path, _ in tree_leaves(example, path)])
    return tree_map(lambda _: made[next(paths)], example)


def _axis(name: str) -> int:
    """Of the lanes."""
    return 0 if name in PER_LANE else 1


def _names() -> list[str]:
    """What every fragment has; the rest says how it came, or how it was drawn."""
    return [field.name for field in fields(Fragment) if field.default is MISSING]
