"""The rows of a batch that count, by their places: a mask would be looked up anew, and on a device waited for, at every use."""

from __future__ import annotations

import torch
from torch import Tensor


def places_of(mask: Tensor) -> Tensor:
    """Where a mask is true, in a row: bool `[...]` -> int64 `[N]`. On a device the CPU waits for this: call it once per batch."""
    return mask.flatten().nonzero().squeeze(1)


def other_places(mask: Tensor, places: Tensor) -> Tensor:
    """Where it is not, by where it is: their number is known, so nobody waits."""
    return torch.nonzero_static(~mask.flatten(), size=mask.numel() - len(places)).squeeze(1)


def taken(x: Tensor, places: Tensor) -> Tensor:
    """`[R, B, ...]` -> `[N, ...]`: the rows at these places."""
    return x.flatten(0, 1).index_select(0, places)
