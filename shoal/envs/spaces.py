"""Gymnasium spaces and the arrays that carry them.

Single observations go in and batches `[rows, 1, ...]` come out (`Columns`); batches of actions go in and what the
environment's own space expects comes out (`action_decoder`). What a group declares is what its arrays hold: 64-bit floats
become 32-bit, and policies count actions from 0 whatever the environment's `start`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from shoal.api.env import Array, Tree
from shoal.base.errors import InputError

MASK, OBSERVATION = "action_mask", "observation"
"""Keys of an observation that holds its mask, and of the rest if that is one thing."""


def observation_space(space: Space[Any], name: str) -> Space[Any]:
    """The space of what Shoal's arrays hold of the environment `name`; InputError where there is no array for it."""
    if isinstance(space, Dict):
        # A list of pairs keeps the environment's own order; a dict would be sorted.
        return Dict([(key, observation_space(part, name)) for key, part in space.spaces.items()])
    if isinstance(space, Tuple):
        return Tuple([observation_space(part, name) for part in space.spaces])
    if isinstance(space, Box):
        return _single_precision(space) if space.dtype == np.float64 else space
    if isinstance(space, Discrete | MultiDiscrete | MultiBinary):
        return space
    raise InputError(
        f"env.id = '{name}': there is no array for observations of {space}; "
        "make them Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple with a wrapper, named in env.wrappers"
    )


def _single_precision(space: Box) -> Box:
    with np.errstate(over="ignore"):  # a bound beyond float32 becomes infinite: no bound
        return Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)


def action_space(space: Space[Any], name: str) -> Space[Any]:
    """The action space of policies in the environment `name`: discrete actions count from 0."""
    if isinstance(space, Discrete):
        return Discrete(int(space.n))
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec, dtype=space.dtype)
    if isinstance(space, MultiBinary | Box):
        return space
    raise InputError(
        f"env.id = '{name}': no policy acts in {space}; "
        "make it Discrete, MultiDiscrete, MultiBinary or Box with a wrapper, named in env.wrappers"
    )


def action_decoder(space: Space[Any]) -> Callable[[Array], Array]:
    """From a policy's actions `[rows, ...]` to a new array of actions in the environment's own `space`."""
    dtype = space.dtype
    if isinstance(space, Discrete | MultiDiscrete):
        start = space.start
        return lambda actions: np.add(actions, start, dtype=dtype)
    if isinstance(space, Box):
        low, high = space.low, space.high
        return lambda actions: np.minimum(np.maximum(actions, low), high).astype(dtype, copy=False)
    return lambda actions: actions.astype(dtype)


def lists_agents(seen: Space[Any], acts: Space[Any]) -> bool:
    """Whether an environment gives and takes tuples with an entry for each of several agents."""
    return isinstance(seen, Tuple) and isinstance(acts, Tuple) and len(seen.spaces) == len(acts.spaces)


# ---------------------------------------------------------------- masks


def mask_width(space: Space[Any]) -> int:
    """How many entries an action mask has; 0 where actions cannot be masked."""
    if isinstance(space, Discrete):
        return int(space.n)
    return int(space.nvec.sum()) if isinstance(space, MultiDiscrete) else 0


def split_mask(space: Space[Any], acts: Space[Any], name: str) -> tuple[Space[Any], bool, bool]:
    """An `action_mask` inside observations is taken out of them, in every environment.

    The observation proper; whether there is a mask; whether `observation` was all there is beside it.
    """
    if not (isinstance(space, Dict) and MASK in space.spaces):
        return space, False, False
    rest = [(key, part) for key, part in space.spaces.items() if key != MASK]
    if not mask_width(acts) or not rest:
        why = "nothing beside it" if not rest else f"actions of {acts}: only Discrete and MultiDiscrete can be masked"
        raise InputError(f"env.id = '{name}' has an action_mask in its observation, and {why}")
    return (rest[0][1], True, True) if [key for key, _ in rest] == [OBSERVATION] else (Dict(rest), True, False)


def flat_mask(mask: Any, width: int) -> Array:
    """One agent's mask as bool `[width]`; several dimensions may come as a tuple of masks."""
    if isinstance(mask, tuple | list) and mask and np.ndim(mask[0]) > 0:
        flat = np.concatenate([np.ravel(part) for part in mask])
    else:
        flat = np.ravel(mask)
    if width == 0:
        raise ValueError("action_mask is given, but only Discrete and MultiDiscrete actions can be masked")
    if flat.shape != (width,):
        raise ValueError(f"action_mask has {flat.size} entries where the action space has {width} actions")
    return flat.astype(bool)


# ---------------------------------------------------------------- observations


class _Leaf(NamedTuple):
    """One array of a tree of observations."""

    path: tuple[Any, ...]
    array: Array
    """`[rows, 1, ...]`."""
    joined: Array
    """The same memory with rows and the first axis of an observation as one; `[rows]` for scalars."""
    scalar: bool


class Columns:
    """Arrays `[rows, 1, ...]` for one observation space, filled in place from single observations."""

    def __init__(self, space: Space[Any], rows: int) -> None:
        self._leaves: list[_Leaf] = []
        self.tree: Tree = self._allocate(space, rows, ())

    def _allocate(self, space: Space[Any], rows: int, path: tuple[Any, ...]) -> Tree:
        if isinstance(space, Dict):
            return {key: self._allocate(part, rows, (*path, key)) for key, part in space.spaces.items()}
        if isinstance(space, Tuple):
            return tuple(self._allocate(part, rows, (*path, i)) for i, part in enumerate(space.spaces))
        shape = space.shape or ()
        array = np.zeros((rows, 1, *shape), space.dtype)
        joined = array.reshape(rows * shape[0], *shape[1:]) if shape else array.reshape(rows)
        self._leaves.append(_Leaf(path, array, joined, scalar=not shape))
        return array

    def write(self, observations: Sequence[Any]) -> None:
        """One observation for every row. Raises if one has another shape or another kind of number than the space."""
        for path, _, joined, scalar in self._leaves:
            parts = [_follow(each, path) for each in observations] if path else observations
            # One call copies all rows, and checks shapes and casts on the way.
            if scalar:
                np.copyto(joined, np.asarray(parts), casting="same_kind")
            else:
                np.concatenate(parts, out=joined)

    def put_side_by_side(self, row: int, observations: Sequence[Any]) -> bool:
        """Those of rows that follow each other, in one call; False: they are not what the space says, and `put` tells why."""
        for path, array, joined, scalar in self._leaves:
            parts = [_follow(each, path) for each in observations] if path else observations
            shape = array.shape[2:]
            if scalar or any(type(part) is not np.ndarray or part.shape != shape for part in parts):
                return False
            try:
                np.concatenate(parts, out=joined[row * shape[0] : (row + len(parts)) * shape[0]])
            except TypeError:  # another kind of number
                return False
        return True

    def put(self, row: int, observation: Any) -> None:
        """The observation of one row, with an error that says what does not fit."""
        for path, array, _, _ in self._leaves:
            part, target = np.asarray(_follow(observation, path)), array[row, 0]
            if part.shape != target.shape or not np.can_cast(part.dtype, target.dtype, "same_kind"):
                where = "".join(f"[{key!r}]" for key in path)
                raise ValueError(
                    f"the observation{where} has shape {part.shape} and dtype {part.dtype} "
                    f"where the space says {target.shape} and {target.dtype}"
                )
            array[row, 0] = part


def _follow(tree: Tree, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def add_agent_axis(space: Space[Any], batch: Tree, rows: int) -> Tree:
    """Observations batched by the environment `[rows, ...]`, as the arrays of a group of one agent `[rows, 1, ...]`."""
    if isinstance(space, Dict):
        return {key: add_agent_axis(part, batch[key], rows) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(add_agent_axis(part, batch[i], rows) for i, part in enumerate(space.spaces))
    array = np.asarray(batch)
    if array.shape != (rows, *(space.shape or ())):
        raise ValueError(f"observations have shape {array.shape} where {rows} copies of {space} were due")
    return array.astype(space.dtype, casting="same_kind", copy=False)[:, None]


# ---------------------------------------------------------------- as one vector


def leaves_of(space: Space[Any]) -> Iterator[Space[Any]]:
    """The parts of nested Dicts and Tuples; a plain space is its own only part."""
    if isinstance(space, Dict | Tuple):
        for part in space.spaces.values() if isinstance(space, Dict) else space.spaces:
            yield from leaves_of(part)
    else:
        yield space


def flat(space: Space[Any], tree: Tree) -> Array:
    """`[rows, agents, ...]` of a space -> float32 `[rows, agents, width]`: discrete parts one-hot, bytes scaled to [0, 1]."""
    if isinstance(space, Dict):
        return np.concatenate([flat(part, tree[key]) for key, part in space.spaces.items()], axis=-1)
    if isinstance(space, Tuple):
        return np.concatenate([flat(part, tree[i]) for i, part in enumerate(space.spaces)], axis=-1)
    columns = tree.reshape(*tree.shape[:2], -1)
    if isinstance(space, Discrete | MultiDiscrete):
        sizes, starts = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0))).ravel(), np.ravel(space.start)
        hot = [
            columns[..., i, None] == start + np.arange(size)
            for i, (size, start) in enumerate(zip(sizes, starts, strict=True))
        ]
        return np.concatenate(hot, axis=-1).astype(np.float32)
    scale = np.float32(1 / 255 if columns.dtype == np.uint8 and isinstance(space, Box) else 1)
    return columns.astype(np.float32) * scale


def flat_space(space: Space[Any]) -> Box:
    """The space of what `flat` gives."""
    ends = [_flat_ends(leaf) for leaf in leaves_of(space)]
    low, high = (np.concatenate(parts).astype(np.float32) for parts in zip(*ends, strict=True))
    return Box(low, high, dtype=np.float32)


def _flat_ends(leaf: Space[Any]) -> tuple[Array, Array]:
    if isinstance(leaf, Box):
        scale = 1 / 255 if leaf.dtype == np.uint8 else 1.0
        return leaf.low.ravel() * scale, leaf.high.ravel() * scale
    width = mask_width(leaf) if isinstance(leaf, Discrete | MultiDiscrete) else int(np.prod(leaf.shape or ()))
    return np.zeros(width), np.ones(width)
