"""Single gymnasium environments in a loop: what `info` says, and what goes wrong."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from sample_worlds import Counting, Drawing, Hinting

from shoal.api.env import Step
from shoal.base.errors import ShoalError
from shoal.envs.gymnasium_loop import GymnasiumLoop

ACTION = {"agent": np.zeros((2, 1), np.int64)}


def loop(*envs: gymnasium.Env, first_slot: int = 0) -> GymnasiumLoop:
    return GymnasiumLoop(list(envs), "World", first_slot=first_slot)


def turn(step: Step) -> Any:
    return step.turns["agent"]


# ---------------------------------------------------------------- masks


def test_masks_come_from_reset_and_step() -> None:
    env = loop(Hinting([[1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 1]], Discrete(3)))
    one = {"agent": np.zeros((1, 1), np.int64)}
    seen = [turn(env.reset(0)).action_mask.copy()] + [turn(env.step(one)).action_mask.copy() for _ in range(3)]
    assert seen[0].dtype == bool
    assert seen[0].shape == (1, 1, 3)
    assert [mask[0, 0].tolist() for mask in seen] == [
        [True, False, True], [False, True, False], [False, False, True], [True, False, True],
    ]  # fmt: skip


def test_a_missing_mask_allows_everything() -> None:
    env = loop(Hinting([[1, 0], None, [0, 1], [1, 0]], Discrete(2)), Hinting([None, [0, 1], None, None], Discrete(2)))
    assert turn(env.reset(0)).action_mask[:, 0].tolist() == [[True, False], [True, True]]
    assert turn(env.step(ACTION)).action_mask[:, 0].tolist() == [[True, True], [False, True]]
    assert turn(env.step(ACTION)).action_mask[:, 0].tolist() == [[False, True], [True, True]]
    assert turn(env.step(ACTION)).action_mask[:, 0].tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(
    "mask", [([1, 0], [0, 1, 1]), np.array([1, 0, 0, 1, 1], np.int8), (np.array([True, False]), np.array([0, 1, 1]))]
)
def test_masks_of_several_dimensions_lie_end_to_end(mask: Any) -> None:
    env = loop(Hinting([mask, mask], MultiDiscrete([2, 3])))
    assert turn(env.reset(0)).action_mask.tolist() == [[[True, False, False, True, True]]]


def test_a_world_without_masks_has_none() -> None:
    assert turn(loop(Counting()).reset(0)).action_mask is None


@pytest.mark.parametrize(
    ("masks", "space", "text"),
    [
        ([None, [1, 0], None], Discrete(2), r"copy 0.*with step\(\) but not with reset\(\)"),
        ([[1, 0, 1], None], Discrete(2), "copy 0.*3 entries where the action space has 2"),
        ([[1, 0], None], Box(-1, 1, (2,)), "copy 0.*only Discrete and MultiDiscrete"),
    ],
)
def test_a_mask_that_cannot_be_right_is_refused(masks: list[Any], space: Any, text: str) -> None:
    env = loop(Hinting(masks, space))

    def begin() -> None:
        env.reset(0)
        env.step({"agent": np.zeros((1, 1, *space.shape), space.dtype)})

    with pytest.raises(ShoalError, match=text):
        begin()


# ---------------------------------------------------------------- faults


class Faulty(Counting):
    """Gives `answer` instead of its own in the second step."""

    def __init__(self, answer: Any) -> None:
        super().__init__(length=100)
        self._answer = answer

    def step(self, action: Any) -> Any:
        own = super().step(action)
        if self.time < 2:
            return own
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


SEEN = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ZeroDivisionError("lost my\n  way"), "ZeroDivisionError: lost my way"),
        ((SEEN, 0.0, False, {}), "not enough values to unpack"),
        ((np.zeros(3, np.float32), 0.0, False, False, {}), r"shape \(3,\).*says \(2,\)"),
        ((np.zeros((2, 1), np.float32), 0.0, False, False, {}), r"shape \(2, 1\).*says \(2,\)"),
        ((np.float32(0), 0.0, False, False, {}), r"shape \(\).*says \(2,\)"),
        ((np.zeros(2, complex), 0.0, False, False, {}), "dtype complex128 where the space says"),
        ((np.zeros(3, np.float32), 0.0, True, False, {}), r"shape \(3,\).*says \(2,\)"),
        ((SEEN, "much", False, False, {}), "the reward is much"),
        ((SEEN, np.ones(1), False, False, {}), r"the reward is \[1.\]; return one number"),
    ],
)
def test_a_fault_names_the_world_and_the_copy(answer: Any, text: str) -> None:
    env = loop(Counting(length=100), Faulty(answer), first_slot=6)
    env.reset(0)
    env.step(ACTION)
    with pytest.raises(ShoalError, match=f"^World, copy 7: .*{text}") as caught:
        env.step(ACTION)
    assert "\n" not in str(caught.value)
    if isinstance(answer, Exception):
        assert caught.value.__cause__ is answer


def test_a_fault_in_reset_names_the_copy() -> None:
    class Stubborn(Counting):
        def reset(self, **kwargs: Any) -> Any:
            raise OSError("no")

    with pytest.raises(ShoalError, match=r"^World, copy 1: OSError: no"):
        loop(Counting(), Stubborn()).reset(0)


def test_floats_do_not_become_bytes_in_silence() -> None:
    class Grey(Drawing):
        def _see(self) -> Any:
            return np.full((2, 2), 0.5)

    with pytest.raises(ShoalError, match=r"dtype float64 where the space says .* uint8"):
        loop(Grey(Box(0, 255, (2, 2), np.uint8))).reset(0)


def test_metrics_that_are_no_numbers_are_refused() -> None:
    env = loop(Counting(length=100), Faulty((SEEN, 0.0, True, False, {"metrics": {"won": "yes"}})), first_slot=6)
    env.reset(0)
    env.step(ACTION)
    with pytest.raises(ShoalError, match=r"^World, copy 7: info\['metrics'\] is not a dict of numbers"):
        env.step(ACTION)


def test_a_world_may_say_nothing_in_info() -> None:
    env = loop(Counting(length=100), Faulty((SEEN, 0.0, True, False, None)))
    env.reset(0)
    env.step(ACTION)
    assert [episode.metrics for episode in env.step(ACTION).episodes] == [{}]
