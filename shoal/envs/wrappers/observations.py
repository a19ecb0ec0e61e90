"""Observations in another form, each by itself: one vector of everything, or discrete parts as vectors of zeros and a one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from shoal.api.env import Array, Codec, Env, Step, Tree
from shoal.base.errors import InputError
from shoal.base.tree import tree_map
from shoal.envs.codec import codec_of
from shoal.envs.spaces import flat, flat_space, leaves_of
from shoal.envs.wrappers.values import Chosen, nothing
from shoal.envs.wrappers.wrapper import EnvWrapper


class ObservationWrapper(EnvWrapper):
    """A subclass says what becomes of a space, and of arrays `[rows, agents, ...]` in it."""

    def __init__(self, env: Env, chosen: Chosen, *, name: str, first_slot: int) -> None:
        super().__init__(env)
        self.groups, self._maps = dict(env.groups), dict[str, Callable[[Tree], Tree]]()
        for group, known in env.groups.items():
            space = self.space_of(known.observation_space)
            if space != known.observation_space:  # in which no images are side by side any more
                self.groups[group] = replace(known, observation_space=space, stacked=0)
            self._maps[group] = partial(self.value_of, known.observation_space)

    @staticmethod
    @abstractmethod
    def space_of(space: Space[Any]) -> Space[Any]:
        """What agents see instead."""

    @staticmethod
    @abstractmethod
    def value_of(space: Space[Any], tree: Tree) -> Tree:
        """Arrays of it, from arrays of `space`."""

    def reset(self, seed: int) -> Step:
        return self._changed(super().reset(seed))

    def recv(self, timeout: float) -> Step:
        return self._changed(super().recv(timeout))

    def describe(self, agent: str, observation: Tree) -> str | None:
        """What is inside knows other observations than these."""
        return None

    def codec(self, agent: str, rows: int) -> Codec:
        group = self._group_of(agent)
        return MappedCodec(codec_of(self._env, group, agent, rows), self._maps[group])

    def _changed(self, step: Step) -> Step:
        turns = {}
        for group, turn in step.turns.items():
            change, final = self._maps[group], turn.final_observation
            last = None if final is None else change(final)
            turns[group] = replace(turn, observation=change(turn.observation), final_observation=last)
        return replace(step, turns=turns)


class Flatten(ObservationWrapper):
    """Everything an agent observes as one vector; discrete parts one-hot."""

    @classmethod
    def check(cls, value: Any) -> None:
        """It takes none."""
        nothing(value, "flatten")

    @staticmethod
    def space_of(space: Space[Any]) -> Space[Any]:
        if _is_uniform(space):
            low, high = (
                np.concatenate([getattr(leaf, end).ravel() for leaf in leaves_of(space)]) for end in ("low", "high")
            )
            return Box(low, high, dtype=low.dtype.type)
        return flat_space(space)

    @staticmethod
    def value_of(space: Space[Any], tree: Tree) -> Array:
        return _side_by_side(space, tree) if _is_uniform(space) else flat(space, tree)


class OneHot(ObservationWrapper):
    """Discrete and MultiDiscrete parts of observations as vectors of zeros and a one."""

    def __init__(self, env: Env, chosen: Chosen, *, name: str, first_slot: int) -> None:
        super().__init__(env, chosen, name=name, first_slot=first_slot)
        if all(self.groups[group] is known for group, known in env.groups.items()):
            raise InputError(f"{chosen.said}: '{name}' shows nothing that is Discrete or MultiDiscrete: remove it")

    @classmethod
    def check(cls, value: Any) -> None:
        """It takes none."""
        nothing(value, "one_hot")

    @staticmethod
    def space_of(space: Space[Any]) -> Space[Any]:
        if isinstance(space, Dict):
            return Dict([(key, OneHot.space_of(part)) for key, part in space.spaces.items()])
        if isinstance(space, Tuple):
            return Tuple([OneHot.space_of(part) for part in space.spaces])
        return flat_space(space) if isinstance(space, Discrete | MultiDiscrete) else space

    @staticmethod
    def value_of(space: Space[Any], tree: Tree) -> Tree:
        if isinstance(space, Dict):
            return {key: OneHot.value_of(part, tree[key]) for key, part in space.spaces.items()}
        if isinstance(space, Tuple):
            return tuple(OneHot.value_of(part, tree[i]) for i, part in enumerate(space.spaces))
        return flat(space, tree) if isinstance(space, Discrete | MultiDiscrete) else tree


class MappedCodec(Codec):
    """Single observations in the other form."""

    def __init__(self, inner: Codec, change: Callable[[Tree], Tree]) -> None:
        self._inner, self._change, self.mask = inner, change, inner.mask
        whole = change(tree_map(lambda array: array[:, None], inner.observation))
        self.observation = tree_map(lambda array: array[:, 0].copy(), whole)

    def begin(self, row: int) -> None:
        self._inner.begin(row)

    def put(self, row: int, observation: Any, mask: Any) -> bool:
        masked = self._inner.put(row, observation, mask)
        seen = self._change(tree_map(lambda array: array[row : row + 1, None], self._inner.observation))
        tree_map(lambda array, value: np.copyto(array[row], value[0, 0]), self.observation, seen)
        return masked

    def decode(self, action: Array) -> Any:
        return self._inner.decode(action)


def _is_uniform(space: Space[Any]) -> bool:
    """Boxes of one kind of number: it stays what it is, bytes bytes."""
    leaves = list(leaves_of(space))
    return all(isinstance(leaf, Box) and leaf.dtype == leaves[0].dtype for leaf in leaves)


def _side_by_side(space: Space[Any], tree: Tree) -> Array:
    if isinstance(space, Dict):
        return np.concatenate([_side_by_side(part, tree[key]) for key, part in space.spaces.items()], axis=-1)
    if isinstance(space, Tuple):
        return np.concatenate([_side_by_side(part, tree[i]) for i, part in enumerate(space.spaces)], axis=-1)
    array: Array = tree
    return array.reshape(*array.shape[:2], -1)
