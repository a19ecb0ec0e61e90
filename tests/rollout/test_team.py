"""Env copies as lanes: one reward, one end, whoever of the agents still lives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from shoal.api.algorithm import Needs
from shoal.api.env import AgentGroup, Turn
from shoal.rollout.global_state import Seen
from shoal.rollout.team import TeamLanes, state_width, team_group
from shoal.rollout.trajectory import TrajectoryBuilder, View
from shoal.streams.inference import Answer
from shoal.streams.sample import SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryRing

GROUP = AgentGroup(("a", "b"), spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(3))


def turn(number: float, **changes: Any) -> Turn:
    """Two copies with two agents each; `changes` name the entries `[copy, agent]` that are set, or whole arrays."""
    flags = {name: np.zeros((2, 2), bool) for name in ("terminated", "truncated")}
    flags["acting"] = np.ones((2, 2), bool)
    for name, where in changes.items():
        if name in flags:
            flags[name] = np.array(where, bool)
    observation = np.full((2, 2, 1), number, np.float32)
    reward = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
    final = changes.get("final")
    return Turn(
        observation, reward, flags["terminated"], flags["truncated"], flags["acting"],
        action_mask=np.array([[[1, 1, 0], [0, 1, 1]], [[1, 0, 0], [1, 1, 1]]], bool),
        final_observation=None if final is None else np.full((2, 2, 1), final, np.float32),
    )  # fmt: skip


def look(team: TeamLanes, number: float, **changes: Any) -> View:
    final = None if changes.get("final") is None else np.full((2, 3), changes["final"] + 0.5)
    return team.view(turn(number, **changes), Seen(np.full((2, 3), number + 0.5), final))


@pytest.mark.parametrize(("reward", "expected"), [("sum", [3, 8]), ("mean", [1.5, 4]), ("first", [1, 3])])
def test_one_reward(reward: Any, expected: list[float]) -> None:
    view = look(TeamLanes(reward), 0.0)
    assert view.reward.tolist() == expected
    assert view.reward.dtype == np.float32


def test_masks_and_observations_lie_side_by_side() -> None:
    view = look(TeamLanes("sum"), 4.0, acting=[[1, 0], [0, 0]])
    assert view.observation["agents"].shape == (2, 2, 1)
    assert view.observation["state"].tolist() == [[4.5] * 3] * 2
    assert view.observation["acting"].tolist() == [[True, False], [False, False]]
    assert view.acting.tolist() == [True, False]
    assert view.action_mask is not None
    assert view.action_mask.astype(int).tolist() == [[1, 1, 0, 0, 1, 1], [1, 0, 0, 1, 1, 1]]


def test_an_episode_ends_with_the_last_agent() -> None:
    team = TeamLanes("sum")
    look(team, 0.0)
    one = look(team, 1.0, terminated=[[1, 0], [0, 0]], acting=[[0, 1], [1, 1]])
    assert not (one.terminated | one.truncated).any()
    two = look(team, 2.0, terminated=[[0, 1], [0, 0]])
    assert (two.terminated.tolist(), two.truncated.tolist()) == ([True, False], [False, False])
    three = look(team, 3.0)
    assert not (three.terminated | three.truncated).any()


def test_a_cut_episode_ends_with_what_the_living_saw() -> None:
    team = TeamLanes("sum")
    look(team, 0.0)
    look(team, 1.0, terminated=[[1, 0], [0, 0]], acting=[[0, 1], [1, 1]])
    same = look(team, 2.0, truncated=[[0, 1], [0, 0]], final=7.0)
    assert (same.terminated.tolist(), same.truncated.tolist()) == ([False, False], [True, False])
    assert same.final_observation is not None
    assert same.final_observation["agents"][0].tolist() == [[7.0], [7.0]]
    assert same.final_observation["acting"][0].tolist() == [False, True]
    assert same.final_observation["state"][0].tolist() == [7.5] * 3
    later = look(team, 3.0, truncated=[[0, 0], [1, 1]], acting=[[1, 1], [0, 0]])
    assert later.final_observation is not None
    assert later.final_observation["agents"][1].tolist() == [[3.0], [3.0]]
    assert later.final_observation["acting"][1].tolist() == [True, True]
    assert later.final_observation["state"][1].tolist() == [3.5] * 3
    assert not later.acting[1]


def test_fragments_of_teams() -> None:
    needs, group = Needs(3, lane="env"), team_group(GROUP, spaces.Box(-9, 9, (3,), np.float32))
    policy: Any = type("Silent", (), {"extras": {}, "initial_state": lambda self, batch: None})()
    ring = MemoryRing(fragment_layout(group, needs, policy, 2, 6), 1)
    builder, team = TrajectoryBuilder(needs, np.arange(2), SampleWriter(ring, 0)), TeamLanes("sum")
    view = look(team, 0.0)
    for number in (1.0, 2.0):
        assert builder.begin(None)
        builder.decide(view, Answer(np.full((2, 2), int(number)), {}, None, 0), None)
        view = look(team, number, truncated=[[number == 2] * 2, [0, 0]], final=70.0)
        posted = builder.observe(view, 2)
    assert posted
    taken = SampleReader([ring]).take(0.0)
    assert taken is not None
    fragment = taken[0].fragment
    assert fragment.observation["agents"].shape == (4, 2, 2, 1)
    assert fragment.observation["agents"][:, 0, 0, 0].tolist() == [0.0, 1.0, 70.0, 2.0]
    assert fragment.observation["agents"][:3, 1, 0, 0].tolist() == [0.0, 1.0, 2.0]
    assert fragment.action[:2, 1].tolist() == [[1, 1], [2, 2]]
    assert fragment.reward[:2].tolist() == [[3.0, 8.0], [3.0, 8.0]]
    assert fragment.valid.T.tolist() == [[True, True, False, False]] * 2
    assert fragment.action_mask[2, 0].all(), "nobody knows what was allowed where the episode was cut"
    assert fragment.action_mask[2, 1].astype(int).tolist() == [1, 0, 0, 1, 1, 1]


def test_the_width_of_a_world() -> None:
    assert state_width(spaces.Box(-1, 1, (2, 3), np.float32)) == 6
