"""Random play stays within spaces and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from shoal.api.env import AgentGroup, Array, Step, Turn
from shoal.testing.sampler import ActionSampler


def sampled(space: Any, mask: Array | None = None, *, copies: int = 3, agents: int = 2, seed: int = 0) -> Array:
    group = AgentGroup(tuple(f"agent_{i}" for i in range(agents)), Discrete(2), space)
    flags = np.zeros((copies, agents), bool)
    turn = Turn(np.zeros((copies, agents)), np.zeros((copies, agents), np.float32), flags, flags, ~flags, mask)
    return ActionSampler({"g": group}, copies, seed).sample(Step({"g": turn}))["g"]


@pytest.mark.parametrize(
    "space",
    [
        Discrete(4),
        MultiDiscrete([2, 5]),
        MultiDiscrete([[2, 3], [4, 5]]),
        MultiBinary(3),
        Box(-2.0, 3.0, (2, 2)),
        Box(-np.inf, np.inf, (1,)),
        Box(5.0, np.inf, (1,)),
        Box(-np.inf, -5.0, (1,)),
        Box(-3e38, 3e38, (1,)),
        Box(0, 255, (2,), np.uint8),
        Box(-1.0, 1.0, ()),
    ],
)
def test_samples_lie_in_the_space(space: Any) -> None:
    actions = sampled(space, copies=50)
    assert actions.shape == (50, 2, *space.shape)
    assert all(space.contains(np.asarray(action)) for action in actions.reshape(100, *space.shape))
    assert len(np.unique(actions)) > 1


def test_masks_are_respected() -> None:
    mask = np.zeros((3, 2, 4), bool)
    mask[..., 2] = True
    assert (sampled(Discrete(4), mask) == 2).all()
    mask[..., 1] = True
    assert set(np.unique(sampled(Discrete(4), np.repeat(mask, 20, axis=0), copies=60))) == {1, 2}


def test_masks_of_several_dimensions_are_respected() -> None:
    mask = np.tile(np.array([True, False, False, False, True]), (3, 2, 1))
    assert (sampled(MultiDiscrete([2, 3]), mask) == [0, 2]).all()


def test_equal_seeds_give_equal_actions() -> None:
    assert np.array_equal(sampled(Discrete(50), seed=1), sampled(Discrete(50), seed=1))
    assert not np.array_equal(sampled(Discrete(50), seed=1), sampled(Discrete(50), seed=2))


def test_a_space_without_a_policy_is_refused() -> None:
    with pytest.raises(TypeError, match="no policy acts in Dict"):
        sampled(Dict(a=Discrete(2)))
