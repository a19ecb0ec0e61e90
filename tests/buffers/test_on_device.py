"""Replay whose contents lie on a device: what it draws is what replay on the CPU draws, and hardly anything goes over for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shoal.api.algorithm import Priorities
from shoal.api.fragment import Fragment
from shoal.base.tree import tree_leaves
from shoal.buffers.columns import HERE
from shoal.buffers.prioritised import PrioritisedReplay
from shoal.buffers.sequences import SequenceReplay
from shoal.buffers.stacks import Stack
from shoal.buffers.uniform import UniformReplay
from shoal.testing.device import DEVICE, counted

ROWS, LANES, SIDE = 4, 3, 16


def fragment(seed: int) -> Fragment:
    """Stacks of three images that move on by one, and small arrays beside them."""
    random = np.random.default_rng(seed)
    images = random.integers(1, 255, (ROWS + 2, LANES, SIDE, SIDE), np.uint8)
    stacks = np.stack([images[row : row + 3].swapaxes(0, 1) for row in range(ROWS)])
    reward = random.normal(size=(ROWS, LANES)).astype(np.float32)
    none = np.zeros((ROWS, LANES), bool)
    valid = none.copy()
    valid[:-1] = True
    version = np.full((ROWS, LANES), seed)
    state = random.normal(size=(LANES, 2)).astype(np.float32)
    return Fragment(
        stacks, version % 5, reward, none, none, valid, none, version, {"log_prob": reward + 1}, None, state,
        np.arange(LANES) + seed,
    )  # fmt: skip


def replay(kind: str, device: torch.device, *, stacked: bool = True) -> SequenceReplay:
    shared: dict[str, Any] = {"seed": 1, "stack": Stack(3) if stacked else None, "device": device}
    if kind == "uniform":
        return UniformReplay(fragment(0), 8, **shared)
    return PrioritisedReplay(fragment(0), 8, Priorities(0.6, 0.4), **shared)


def assert_same(here: Fragment, there: Fragment) -> None:
    leaves = dict(tree_leaves(vars(there)))
    for path, leaf in tree_leaves(vars(here)):
        other = leaves[path]
        other = other.cpu().numpy() if isinstance(other, torch.Tensor) else other
        assert other.dtype == leaf.dtype
        assert np.array_equal(other, leaf), path


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("kind", ["uniform", "prioritised"])
def test_draws_are_those_of_the_cpu(kind: str, stacked: bool) -> None:
    here, there = (replay(kind, device, stacked=stacked) for device in (HERE, DEVICE))
    assert 0.5 * here.nbytes <= there.nbytes <= 2 * here.nbytes
    for update in range(6):
        for buffer in (here, there):
            buffer.insert(fragment(update))
        drawn = [buffer.sample(5, update) for buffer in (here, there)]
        assert drawn[1].observation.device == DEVICE
        assert_same(*drawn)
        if kind == "prioritised":
            for buffer, batch in zip((here, there), drawn, strict=True):
                assert batch.keys is not None
                buffer.revalue(batch.keys, np.arange(5.0))


def test_states_know_no_device() -> None:
    here, there = replay("uniform", HERE, stacked=True), replay("uniform", DEVICE, stacked=True)
    for seed in range(4):
        there.insert(fragment(seed))
    here.load_state_dict(there.state_dict())
    back = replay("uniform", DEVICE, stacked=True)
    back.load_state_dict(here.state_dict())
    for buffer in (there, back):
        assert_same(here.sample(6, 3), buffer.sample(6, 3))


def test_images_go_over_once_and_draws_are_places_alone() -> None:
    buffer, given = replay("uniform", DEVICE), fragment(1)
    rest = sum(leaf.nbytes for path, leaf in tree_leaves(vars(given)) if path != "observation")
    with counted() as inserted:
        buffer.insert(given)
    images = LANES * (ROWS + 2)
    assert images * SIDE * SIDE <= inserted.to_device <= images * (SIDE * SIDE + 8) + rest
    assert inserted.synchronising == inserted.to_cpu == 0
    with counted() as drawn:
        batch = buffer.sample(5, 0)
    assert drawn.to_device == 8 * 5 + 8 * ROWS * 5 * 3
    assert drawn.synchronising == drawn.to_cpu == 0
    assert drawn.to_device < 0.1 * batch.observation.nbytes
