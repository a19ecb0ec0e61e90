"""Spaces as data: what a Program knows of an environment that it does not hold open."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from shoal.base.errors import InputError


def space_to_plain(space: Space[Any]) -> Any:
    """A space as plain values. Bounds that are equal everywhere are written once."""
    match space:
        case spaces.Box():
            return {"box": [_bound(space.low), _bound(space.high), list(space.shape), space.dtype.str]}
        case spaces.Discrete():
            return {"discrete": [int(space.n), int(space.start), np.dtype(space.dtype).str]}
        case spaces.MultiDiscrete():
            return {"multi_discrete": [space.nvec.tolist(), space.start.tolist(), np.dtype(space.dtype).str]}
        case spaces.MultiBinary():
            return {"multi_binary": space.n if isinstance(space.n, int) else list(space.shape)}
        case spaces.Dict():
            return {"dict": [[key, space_to_plain(part)] for key, part in space.spaces.items()]}
        case spaces.Tuple():
            return {"tuple": [space_to_plain(part) for part in space.spaces]}
    raise InputError(f"a space {space} is not supported: use Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple")


def space_from_plain(plain: Any) -> Space[Any]:
    """The space that `space_to_plain` was given."""
    ((kind, value),) = plain.items()
    if kind == "box":
        low, high, shape, dtype = value
        low, high = (np.broadcast_to(np.asarray(bound, np.dtype(dtype)), shape).copy() for bound in (low, high))
        return spaces.Box(low, high, dtype=np.dtype(dtype).type)
    if kind == "discrete":
        n, start, dtype = value
        return spaces.Discrete(n, start=start, dtype=np.dtype(dtype).type)
    if kind == "multi_discrete":
        n, start, dtype = value
        return spaces.MultiDiscrete(np.array(n), start=np.array(start), dtype=np.dtype(dtype).type)
    if kind == "multi_binary":
        return spaces.MultiBinary(value)
    if kind == "dict":
        return spaces.Dict({key: space_from_plain(part) for key, part in value})
    return spaces.Tuple([space_from_plain(part) for part in value])


def _bound(bound: np.ndarray) -> Any:
    return bound.flat[0].item() if bound.size and (bound == bound.flat[0]).all() else bound.tolist()
