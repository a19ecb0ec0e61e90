"""What central critics see: the order of the agents, zeros for the dead, and the last of an episode that was cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from shoal.api.env import AgentGroup, Array, Env, Episode, Step, Turn
from shoal.api.sight import AGENT, OWN, STATE
from shoal.base.errors import ShoalError
from shoal.envs.native.multi_cartpole import MultiCartPole
from shoal.rollout.global_state import GlobalStateView, Seen, StoredObservations, flat, state_space_of
from shoal.rollout.seat import as_lanes

GROUPS = {
    "left": AgentGroup(("l0", "l1"), Box(-9, 9, (1,), np.float32), Discrete(2)),
    "right": AgentGroup(("r0",), Discrete(3), Discrete(2)),
}


class Shape(Env):
    """Only what a GlobalStateView asks of an Env."""

    def __init__(self) -> None:
        self.groups, self.num_envs = GROUPS, 2

    def reset(self, seed: int) -> Step:
        raise NotImplementedError

    def send(self, actions: dict[str, Array]) -> None:
        raise NotImplementedError

    def recv(self, timeout: float) -> Step:
        raise NotImplementedError


def step(lefts: Any, rights: Any, acting: Any, ended: Any, episodes: tuple[int, ...] = (), **final: Any) -> Step:
    """Two copies; acting and ended over l0, l1, r0; `final`: group -> what it saw last."""
    acts, ends = np.array(acting, bool), np.array(ended, bool)
    seen = {"left": np.array(lefts, np.float32)[..., None], "right": np.array(rights)[:, None]}
    last = {name: np.array(values).reshape(seen[name].shape) for name, values in final.items()}
    turns = {}
    for name, columns in (("left", slice(0, 2)), ("right", slice(2, 3))):
        zeros = np.zeros_like(ends[:, columns])
        reward = zeros.astype(np.float32)
        turns[name] = Turn(
            seen[name], reward, zeros, ends[:, columns], acts[:, columns], final_observation=last.get(name)
        )
    return Step(turns, episodes=[Episode(row, 1, {}) for row in episodes])


ALL, NONE = [[1, 1, 1], [1, 1, 1]], [[0, 0, 0], [0, 0, 0]]


def test_all_agents_in_order_choices_one_hot() -> None:
    seen = GlobalStateView(Shape()).see(step([[1, 2], [3, 4]], [0, 2], ALL, NONE))
    assert seen.now.tolist() == [[1, 2, 1, 0, 0], [3, 4, 0, 0, 1]]
    assert seen.final is None


def test_the_dead_are_zeros_until_the_next_episode() -> None:
    view = GlobalStateView(Shape())
    view.see(step([[1, 2], [3, 4]], [0, 2], ALL, NONE))
    died = view.see(step([[5, 6], [7, 8]], [1, 1], [[0, 1, 1], [1, 1, 1]], [[1, 0, 0], [0, 0, 0]]))
    assert died.now.tolist() == [[0, 6, 0, 1, 0], [7, 8, 0, 1, 0]]
    assert died.final is not None
    assert died.final[0].tolist() == [5, 6, 0, 1, 0]
    later = view.see(step([[5, 9], [7, 8]], [1, 1], [[0, 1, 1], [1, 1, 1]], NONE))
    assert later.now[0].tolist() == [0, 9, 0, 1, 0]
    ends = [[0, 1, 1], [0, 0, 0]]
    last = view.see(step([[1, 1], [7, 8]], [0, 1], ALL, ends, (0,), left=[[4, 4], [0, 0]], right=[[2], [0]]))
    assert last.now[0].tolist() == [1, 1, 1, 0, 0]
    assert last.final is not None
    assert last.final.tolist() == [[0, 4, 0, 0, 1], [7, 8, 0, 1, 0]]


def test_who_waits_for_a_turn_is_not_dead() -> None:
    view = GlobalStateView(Shape())
    view.see(step([[1, 2], [3, 4]], [0, 2], [[1, 0, 0], [1, 0, 0]], NONE))
    assert view.see(step([[1, 2], [3, 4]], [0, 2], [[0, 1, 0], [0, 1, 0]], NONE)).now[0].tolist() == [1, 2, 1, 0, 0]


def test_next_step_autoreset() -> None:
    view = GlobalStateView(Shape())
    view.see(step([[1, 2], [3, 4]], [0, 2], ALL, NONE))
    ended = view.see(step([[5, 6], [3, 4]], [0, 2], [[0, 0, 0], [1, 1, 1]], [[1, 1, 1], [0, 0, 0]], (0,)))
    assert ended.final is not None
    assert ended.final[0].tolist() == [5, 6, 1, 0, 0]
    again = view.see(step([[7, 8], [3, 4]], [0, 2], [[1, 0, 0], [1, 1, 1]], NONE))
    assert again.now[0].tolist() == [7, 8, 1, 0, 0]


def test_a_state_goes_before_observations_and_must_say_how_it_ended() -> None:
    view = GlobalStateView(Shape())
    first = step([[1, 2], [3, 4]], [0, 2], ALL, NONE)
    first.state = np.array([[1.0], [2.0]])
    assert view.see(first).now.tolist() == [[1.0], [2.0]]
    last = step([[1, 1], [7, 8]], [0, 1], ALL, [[1, 1, 1], [0, 0, 0]], (0,), left=[[4, 4], [0, 0]], right=[[2], [0]])
    last.state = np.array([[5.0], [6.0]])
    with pytest.raises(ShoalError, match="final_state"):
        view.see(last)
    last.final_state = np.array([[3.0], [6.0]])
    assert np.array_equal(view.see(last).final, [[3.0], [6.0]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "shape", "dtype"),
    [
        (np.zeros((2, 4)), (4,), np.float32),
        (np.zeros((2, 8, 8, 3), np.uint8), (8, 8, 3), np.uint8),
        ({"a": np.zeros((2, 2)), "b": np.zeros((2, 3), np.int64)}, (5,), np.float32),
        (None, (5,), np.float32),
    ],
)
def test_the_space_is_that_of_what_is_seen(state: Any, shape: tuple[int, ...], dtype: Any) -> None:
    first = step([[1, 2], [3, 4]], [0, 2], ALL, NONE)
    first.state = state
    space, seen = state_space_of(GROUPS, first), GlobalStateView(Shape()).see(first)
    assert space.shape == shape == seen.now.shape[1:]
    assert space.dtype == dtype == seen.now.dtype


def test_flat_takes_nested_spaces() -> None:
    space = Dict({"a": MultiDiscrete([2, 3]), "b": Box(0, 255, (1, 2), np.uint8)})
    tree = {"a": np.array([[[1, 2]]]), "b": np.array([[[[255, 0]]]], np.uint8)}
    assert flat(space, tree)[0, 0].tolist() == [0, 1, 0, 0, 1, 1, 0]


def test_notes_give_every_lane_the_world_of_its_copy() -> None:
    view = as_lanes(step([[1, 2], [3, 4]], [0, 2], ALL, NONE).turns["left"])
    notes = StoredObservations(4, 2, global_state=True)
    noted = notes.of(view, Seen(np.array([[10.0], [20.0]]), np.array([[11.0], [21.0]])))
    assert noted.observation[STATE][:, 0].tolist() == [10, 10, 20, 20]
    assert noted.observation[AGENT].tolist() == [0, 1, 0, 1]
    assert noted.final_observation[STATE][:, 0].tolist() == [11, 11, 21, 21]  # type: ignore[index]
    assert notes.policy_input(noted.observation).keys() == {OWN, AGENT}
    assert StoredObservations(4, 0, global_state=True).policy_input(noted.observation) is noted.observation[OWN]


def test_a_state_that_nobody_wants_is_not_made() -> None:
    env = MultiCartPole(2, max_steps=2)
    assert env.reset(0).state is not None
    env.wants_state = False
    assert env.reset(0).state is None
    actions = {"pole": np.zeros((2, 2), np.int64)}
    env.step(actions)
    last = env.step(actions)
    assert last.episodes
    assert (last.state, last.final_state) == (None, None)
