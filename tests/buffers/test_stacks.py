"""Stacks of images come back bit for bit, and take the room of each image once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.api.env import Env
from shoal.api.experiment import EnvConfig, Experiment
from shoal.api.fragment import Fragment
from shoal.base.errors import ShoalError
from shoal.buffers.columns import Columns, replay_nbytes
from shoal.buffers.stacks import Stack
from shoal.buffers.uniform import UniformReplay
from shoal.envs import make_env
from shoal.program.expand import expand
from shoal.program.report import plan_of
from tests.buffers.test_uniform import ROWS, equal
from tests.buffers.test_uniform import fragment as plain_fragment

Ends = list[list[bool]]
SHAPES = st.sampled_from([(2, 4), (3,), (1,)])  # whole words of 8 bytes, and less


def ends_of(lanes: int) -> st.SearchStrategy[Ends]:
    return st.lists(st.lists(st.booleans(), min_size=lanes, max_size=lanes), min_size=2, max_size=9)


def play(ends: Ends, pictures: int, shape: tuple[int, ...], *, repeat: bool, dtype: str = "uint8") -> np.ndarray:
    """`[rows, lanes, images, ...]` of environments whose episodes end after the rows named; images are seldom alike, some are."""
    random = np.random.default_rng(len(ends))
    lanes = []
    for lane in np.array(ends).T:
        stack, rows, first = [np.zeros(shape, dtype)] * pictures, [], True
        for end in lane:
            new = random.integers(0, 3, shape).astype(dtype)
            filler = new if repeat else np.zeros(shape, dtype)
            stack = [*([filler] * (pictures - 1) if first else stack[1:]), new]
            rows.append(np.stack(stack))
            first = end
        lanes.append(np.stack(rows))
    return np.stack(lanes, 1)


def fragment(observation: np.ndarray, valid: np.ndarray | None = None) -> Fragment:
    """Some rows of some lanes that see this; the last is only seen."""
    rows, lanes = observation.shape[:2]
    own = plain_fragment(lanes, 1).map(
        lambda leaf: np.resize(leaf, (rows, *leaf.shape[1:])) if len(leaf) == ROWS else leaf
    )
    if valid is None:
        valid = np.repeat(np.arange(rows)[:, None] < rows - 1, lanes, 1)
    return replace(own, observation=observation, valid=valid, state=None, lanes=np.arange(lanes))


def both(example: Fragment, sequences: int, stack: Stack) -> tuple[Columns, Columns]:
    return Columns(example, sequences), Columns(example, sequences, stack)


@settings(deadline=None, max_examples=60)
@given(
    ends=st.integers(1, 4).flatmap(ends_of),
    pictures=st.integers(2, 5), shape=SHAPES, repeat=st.booleans(), dtype=st.sampled_from(["uint8", "float32"]),
)  # fmt: skip
def test_every_stack_comes_back(ends: Ends, pictures: int, shape: tuple[int, ...], repeat: bool, dtype: str) -> None:
    large = (*shape, 600)  # too large for the record
    seen = play(ends, pictures, large, repeat=repeat, dtype=dtype)
    own = fragment(seen)
    lanes = seen.shape[1]
    for columns in (stacked := both(own, lanes + 2, Stack(pictures))):
        columns.write(1, own, np.arange(lanes))
    places = np.array([lanes, 1, *range(1, lanes + 1), 0])
    whole, once = (columns.drawn(places).observation for columns in stacked)
    assert once.dtype == whole.dtype
    assert np.array_equal(once, whole)
    assert np.array_equal(once[:, 2:-1], seen)
    assert once.flags.c_contiguous


def test_what_is_equal_is_equal_to_the_bit() -> None:
    """Zeros of either sign, and numbers that are none."""
    seen = play([[False]] * 4, 3, (1, 200), repeat=False, dtype="float32")
    seen[0] = -0.0
    seen[1:, 0, -1, 0, :5] = np.nan
    seen[1, 0, :2], seen[2, 0, :2], seen[3, 0, :2] = seen[0, 0, 1:], seen[1, 0, 1:], seen[2, 0, 1:]
    own = fragment(seen)
    columns = Columns(own, 1, Stack(3))
    columns.write(0, own, np.arange(1))
    assert columns.drawn(np.zeros(1, np.int64)).observation.tobytes() == seen.tobytes()


def test_rows_that_were_never_filled_may_hold_anything() -> None:
    seen = play([[False, False]] * 8, 4, (16, 16), repeat=False)
    seen[4:, 1] = np.random.default_rng(0).integers(1, 9, seen[4:, 1].shape)
    valid = np.arange(8)[:, None] < [7, 3]
    own = fragment(seen, valid)
    columns = Columns(own, 2, Stack(4, bootstrap=1))
    columns.write(0, own, np.arange(2))
    back = columns.drawn(np.arange(2)).observation
    assert np.array_equal(back[:, 0], seen[:, 0])
    assert np.array_equal(back[:4, 1], seen[:4, 1])
    with pytest.raises(ShoalError, match="AgentGroup.stacked = 4 says: set it to 0"):
        Columns(own, 2, Stack(4, bootstrap=3)).write(0, own, np.arange(2))


def test_what_is_no_stack_is_an_error() -> None:
    noise = np.random.default_rng(0).integers(1, 9, (5, 1, 4, 16, 16)).astype(np.uint8)
    with pytest.raises(ShoalError, match="no stacks of 4 images"):
        Columns(fragment(noise), 1, Stack(4)).write(0, fragment(noise), np.arange(1))


def test_bytes() -> None:
    """R + stack images instead of R * stack, and little beside them."""
    own = fragment(np.zeros((9, 1, 4, 84, 84), np.uint8))
    whole, once = (columns.nbytes for columns in both(own, 50, Stack(4)))
    assert (replay_nbytes(own, 50), replay_nbytes(own, 50, Stack(4))) == (whole, once)
    assert once / whole < (9 + 4) / (9 * 4) * 1.02


def test_state_goes_on() -> None:
    own = fragment(play([[False] * 3, [True] * 3, [False] * 3, [False] * 3], 3, (16, 16), repeat=True))
    replay, other = (UniformReplay(own, 4, seed=1, stack=Stack(3)) for _ in range(2))
    replay.insert(own)
    other.load_state_dict(replay.state_dict())
    for one in (replay, other):
        one.insert(own)
    assert equal(replay.state_dict(), other.state_dict())
    assert np.array_equal(replay.sample(9, 3).observation, other.sample(9, 3).observation)
    with pytest.raises(ValueError, match="not"):
        UniformReplay(own, 5, seed=1, stack=Stack(3)).load_state_dict(replay.state_dict())


# ---------------------------------------------------------------- environments


def stacked_cartpole(**kwargs: Any) -> Any:
    import gymnasium
    from gymnasium.wrappers import FrameStackObservation, TimeLimit

    return TimeLimit(FrameStackObservation(gymnasium.make("CartPole-v1"), 3, **kwargs), 50)


def group_of(env: Env) -> Any:
    env.close()
    return env.groups["agent"]


def test_worlds_say_that_they_stack() -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    own = "tests.buffers.test_stacks:stacked_cartpole"
    made: list[tuple[dict[str, Any], int]] = [
        ({"id": "ALE/Pong-v5"}, 4),
        ({"id": "CartPole-v1"}, 0),
        ({"id": own}, 3),
        ({"id": own, "kwargs": {"padding_type": "zero"}}, 3),
        ({"id": own, "kwargs": {"padding_type": np.full(4, 0.1, np.float32)}}, 0),
    ]
    for config, stacked in made:
        assert group_of(make_env(EnvConfig.model_validate(config), 2)).stacked == stacked, config


def pong(**algorithm: Any) -> Experiment:
    """Episodes of 40 decisions, cut off."""
    return Experiment.parse(
        {
            "env": {"id": "ALE/Pong-v5", "num_envs": 4, "kwargs": {"max_num_frames_per_episode": 160}},
            "algorithm": {"name": "dqn", "unroll": 12, "batch": 12, "capacity": 600, "warmup": 500, **algorithm},
            "model": {"name": "nature"},
            "stop": {"steps": 700},
        }
    )


@pytest.mark.parametrize("algorithm", [pytest.param({}, marks=pytest.mark.slow), {"n_step": 3, "burn_in": 4}])
def test_random_plays_of_pong(algorithm: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    seen: list[Fragment] = []
    write: Callable[..., None] = Columns.write

    def noted(self: Columns, place: int, fragment: Fragment, lanes: np.ndarray) -> None:
        seen.append(fragment.map(np.copy))
        write(self, place, fragment, lanes)

    monkeypatch.setattr(Columns, "write", noted)
    shoal.train(pong(**algorithm), root=tmp_path, quiet=True, on="inline")
    assert sum(int(each.truncated[each.valid].sum()) for each in seen) > 8
    bootstrap = algorithm.get("n_step", 1)
    for each in seen:
        columns = Columns(each, 4, Stack(4, bootstrap))
        write(columns, 0, each, np.arange(4))
        back = columns.drawn(np.arange(4)).observation
        last = len(back) - 1 - each.valid[::-1].argmax(0)
        filled = np.arange(len(back))[:, None] <= last + bootstrap
        assert np.array_equal(back[filled], each.observation[filled])


def test_the_plan_counts_each_picture_once() -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    policy = plan_of(expand(pong()))["policies"]["agent"]
    pictures = policy["sequences_of_replay"] * (13 + 4) * 84 * 84
    assert pictures < policy["bytes_of_replay"] < pictures * 1.02
