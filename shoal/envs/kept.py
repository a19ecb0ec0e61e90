"""Environments that outlive the workers that play in them: closed ones in, and the same again, as they were left.

Where a member of a population makes room for another and comes back, environments that step in Python would have to play their open
episodes through again. Those that were kept need not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.api.env import Array, Env, Step
from shoal.base.tree import Tree, tree_leaves
from shoal.envs.wrappers.wrapper import EnvWrapper


@dataclass(frozen=True)
class _Left:
    """What lies on the shelf."""

    env: Env
    first: Step
    """Of its reset."""


class EnvShelf:
    """Keeps those of one run whose `restore` is slow, by the number of their rollout."""

    def __init__(self) -> None:
        self._left: dict[int, _Left] = {}

    def open(self, key: int, make: Callable[[], Env], *, goes_on: bool) -> Env:
        """What was left under this number, if `restore` is to follow; otherwise new ones. Closed, they are left under it."""
        left = self._left.pop(key, None)
        if left is not None and not goes_on:
            left.env.close()
            left = None
        return KeptEnv(self, key, make() if left is None else left.env, None if left is None else left.first)

    def keep(self, key: int, env: Env, first: Step) -> None:
        """Keep them."""
        self._left[key] = _Left(env, first)

    def close(self) -> None:
        """Keep nothing any more."""
        while self._left:
            self._left.popitem()[1].env.close()


class KeptEnv(EnvWrapper):
    """Of a shelf. `first`: it was reset before, and its episodes go on."""

    def __init__(self, shelf: EnvShelf, key: int, env: Env, first: Step | None) -> None:
        super().__init__(env)
        self._shelf, self._key, self._first, self._waits = shelf, key, first, first is not None

    def reset(self, seed: int) -> Step:
        """Of what was left: nothing yet, since `restore` follows, and then no value of this Step is looked at."""
        if self._waits:
            assert self._first is not None
            return self._first
        self._first = super().reset(seed)
        return self._first

    def send(self, actions: dict[str, Array]) -> None:
        assert not self._waits, "restore comes first"
        super().send(actions)

    def restore(self, tree: Tree) -> None:
        """Nothing to do where it is as it was left."""
        if not (self._waits and _equal(self._env.snapshot(), tree)):
            super().restore(tree)
        self._waits = False

    def close(self) -> None:
        """Those that would have to play episodes again are kept."""
        if self._env.relives and self._first is not None:
            self._shelf.keep(self._key, self._env, self._first)
        else:
            super().close()


def _equal(one: Tree, two: Tree) -> bool:
    leaves, others = dict(tree_leaves(one)), dict(tree_leaves(two))
    return leaves.keys() == others.keys() and all(
        np.array_equal(leaf, others[path], equal_nan=np.asarray(leaf).dtype.kind == "f")
        for path, leaf in leaves.items()
    )
