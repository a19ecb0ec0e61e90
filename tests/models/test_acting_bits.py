"""In acting a row's answer, to the last bit, does not depend on the rows that keep it company.

It holds for batches of at least 16 rows in multiples of 8. With 8 rows MKL multiplies by another path where a layer has
two or three outputs, or more than about 128 inputs. Vectorised sigmoid, softplus, silu, elu, atanh and logaddexp round
what is left over after whole blocks of 32 numbers otherwise than the rest: heads avoid them when they sample, and widths
that are multiples of 4 leave nothing over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from model_spaces import batch
from torch import Tensor

from shoal.base.config import Named
from shoal.base.tree import Tree, tree_leaves, tree_map
from shoal.models import build_model
from shoal.models.heads import build_head

SIZES = (16, 24, 32, 40, 56, 64, 72, 96)
LARGEST = SIZES[-1]
PICTURE = Box(0, 255, (4, 84, 84), np.uint8)
CASES: dict[str, tuple[dict[str, Any], Space[Any]]] = {
    "mlp": ({"name": "mlp"}, Box(-1, 1, (4,))),
    "wide mlp": ({"name": "mlp", "hidden": [256, 256], "layer_norm": True}, Box(-1, 1, (17,))),
    "gru": ({"name": "gru"}, Box(-1, 1, (4,))),
    "wide gru": ({"name": "gru", "hidden": [64, 256]}, Box(-1, 1, (18,))),
    "lstm": ({"name": "lstm"}, Box(-1, 1, (4,))),
    "wide lstm": ({"name": "lstm", "hidden": [64, 256]}, Box(-1, 1, (18,))),
    "nature": ({"name": "nature"}, PICTURE),
    "impala": ({"name": "impala"}, Box(0, 255, (32, 32, 3), np.uint8)),
    "board": ({"name": "board"}, Box(0, 1, (6, 7, 2), np.int8)),
}
HEADS = {
    "two": (Discrete(2), False),
    "three": (Discrete(3), False),
    "eighteen": (Discrete(18), False),
    "uneven": (MultiDiscrete([2, 5]), False),
    "bits": (MultiBinary(3), False),
    "one number": (Box(-1, 1, (1,)), False),
    "squashed": (Box(-1, 1, (6,)), True),
}


def answer(model: torch.nn.Module, observation: Tree, state: Tree | None, first: Tensor, rows: Tensor) -> list[Tensor]:
    features, after = model(
        tree_map(lambda x: x[:, rows], observation), tree_map(lambda x: x[rows], state), first[:, rows]
    )
    return [features[0], *(leaf for _, leaf in tree_leaves(after))]


@pytest.mark.parametrize("name", list(CASES))
@torch.no_grad()
def test_models(name: str) -> None:
    torch.manual_seed(0)
    settings, space = CASES[name]
    model = build_model(Named.parse(settings), space)
    observation = batch(space, 1, LARGEST)
    state = tree_map(torch.randn_like, model.initial_state(LARGEST))
    first = torch.rand(1, LARGEST) < 0.2
    whole = answer(model, observation, state, first, torch.arange(LARGEST))
    for size in SIZES:
        rows = torch.randperm(LARGEST)[:size]
        for part, all_rows in zip(answer(model, observation, state, first, rows), whole, strict=True):
            assert torch.equal(part, all_rows[rows]), f"{size} rows"


@pytest.mark.parametrize("name", list(HEADS))
@pytest.mark.parametrize("width", [64, 512])
@torch.no_grad()
def test_heads(name: str, width: int) -> None:
    torch.manual_seed(0)
    space, squash = HEADS[name]
    head = build_head(space, width, squash=squash, init_gain=1.0)
    features, noise = torch.randn(LARGEST, width), torch.rand(LARGEST, head.noise_size)
    whole = head.sample(head(features), noise)
    for size in SIZES:
        rows = torch.randperm(LARGEST)[:size]
        for part, all_rows in zip(head.sample(head(features[rows]), noise[rows]), whole, strict=True):
            assert torch.equal(part, all_rows[rows]), f"{size} rows"
