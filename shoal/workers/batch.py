"""Fragments side by side as one batch of tensors, and a look at its numbers before anyone learns from them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch

from shoal.api.fragment import PER_LANE, Fragment
from shoal.base.tree import tree_leaves, tree_map


def join(fragments: list[Fragment]) -> Fragment:
    """In the order given; a single one is not copied."""
    if len(fragments) == 1:
        return fragments[0].map(torch.as_tensor)  # what was drawn on a device is a tensor

    def lanes(axis: int):  # type: ignore[no-untyped-def]
        return lambda *arrays: torch.from_numpy(np.concatenate(arrays, axis))

    joined = {}
    for field in fields(Fragment):
        parts = [getattr(fragment, field.name) for fragment in fragments]
        joined[field.name] = tree_map(lanes(0 if field.name in PER_LANE else 1), *parts)
    return Fragment(**joined)


def find_problem(batch: Fragment) -> str | None:
    """What is not finite, and in which lanes. A sum is finite only if every part is: one pass, no mask."""
    for name in ("reward", "observation", "extras"):
        for path, leaf in tree_leaves(getattr(batch, name), name):
            if leaf.is_floating_point() and not torch.isfinite(leaf.sum()):
                lanes = (~torch.isfinite(leaf.flatten(2)).all(-1) if leaf.ndim > 2 else ~torch.isfinite(leaf)).any(0)
                return f"{path} of lanes {batch.lanes[lanes].tolist()} is not finite"
    return None
