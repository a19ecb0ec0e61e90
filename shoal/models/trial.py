"""A model of the user's own is tried before a run: observations of zeros in, one line where it breaks the contract out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Dict, Tuple
from torch import Tensor, nn

from shoal.api.policy import Model
from shoal.base.errors import InputError, own_code
from shoal.base.tree import Tree, tree_leaves

ROWS, LANES = 2, 3
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def try_model(model: Model, observation_space: Space[Any], said: str) -> None:
    """One forward pass on a copy. `said`: how errors call the model."""
    _check_parts(model, said)
    tried = copy.deepcopy(model).eval()
    with torch.no_grad(), own_code(said):
        state = tried.initial_state(LANES)
        _check_memory(state, said)
        first = torch.zeros(ROWS, LANES, dtype=torch.bool)
        given = tried(zeros(observation_space, (ROWS, LANES)), state, first)
    if not (isinstance(given, tuple) and len(given) == 2):
        raise InputError(
            f"{said}: forward returned {_kind(given)}: return the features and the state after the last row"
        )
    features, after = given
    wanted = (ROWS, LANES, model.features)
    if not isinstance(features, Tensor) or tuple(features.shape) != wanted:
        got = list(features.shape) if isinstance(features, Tensor) else _kind(features)
        raise InputError(
            f"{said}: forward gave features {got} where [R, B, features] is {list(wanted)}: "
            "mend forward, or self.features, which is their width"
        )
    if not features.isfinite().all():
        raise InputError(f"{said}: forward gave NaN or infinity for observations of zeros: mend its arithmetic")
    if _shapes(after) != _shapes(state):
        raise InputError(
            f"{said}: forward returned the state {_shapes(after)} where initial_state gave {_shapes(state)}: "
            "return the state after the last row, of equal shapes"
        )


def zeros(space: Space[Any], axes: tuple[int, ...]) -> Tree:
    """Observations of zeros, with these axes before their own."""
    if isinstance(space, Dict):
        return {key: zeros(part, axes) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(zeros(part, axes) for part in space.spaces)
    return torch.from_numpy(np.zeros((*axes, *(space.shape or ())), space.dtype))


def _check_parts(model: Model, said: str) -> None:
    if not isinstance(getattr(model, "features", None), int):
        raise InputError(f"{said} has no width: set self.features to that of what forward gives")
    if any(isinstance(part, BATCH_NORMS) for part in model.modules()):
        raise InputError(
            f"{said} has a BatchNorm, where a row's answer depends on the others: use LayerNorm or GroupNorm"
        )
    if any(nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        raise InputError(f"{said} has lazy layers, whose size is not known before they are used: give it")


def _check_memory(state: Tree | None, said: str) -> None:
    for _, leaf in tree_leaves(state):
        if not (isinstance(leaf, Tensor) and leaf.shape[:1] == (LANES,)):
            raise InputError(f"{said}: initial_state({LANES}) should give tensors [{LANES}, ...], not {_shapes(state)}")


def _shapes(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _shapes(part) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map(_shapes, tree))
    return list(tree.shape) if isinstance(tree, Tensor) else _kind(tree)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
