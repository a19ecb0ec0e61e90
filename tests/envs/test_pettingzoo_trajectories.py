"""From a PettingZoo game to fragments, against tables written by hand: credit across turns, death, birth, ends of two kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from zoo_worlds import DUEL, PLAYERS, Beat, InTurn, Together

from shoal.api.algorithm import Needs
from shoal.api.env import Env
from shoal.api.fragment import Fragment
from shoal.envs.pettingzoo_loop import PettingZooLoop
from shoal.rollout.seat import as_lanes
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.inference import Answer
from shoal.streams.sample import SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryRing

GROUP = "p"
Row = tuple[Any, ...]


class Stateless:
    """Only what a layout asks for."""

    extras: dict[str, Any] = {}

    def initial_state(self, batch: int) -> None:
        return None


def fragments(env: Env, unroll: int, count: int) -> list[list[list[Row]]]:
    """The first fragments of the group `p`, as a table for each lane; an action is the number of the step."""
    group, needs = env.groups[GROUP], Needs(unroll)
    lanes = env.num_envs * len(group.agents)
    ring = MemoryRing(fragment_layout(group, needs, Stateless(), lanes, None), 1)  # type: ignore[arg-type]
    builder = TrajectoryBuilder(needs, np.arange(lanes), SampleWriter(ring, 0))
    reader, got = SampleReader([ring]), []
    view, time = as_lanes(env.reset(0).turns[GROUP]), 0
    while len(got) < count:
        assert builder.begin(None)
        actions = np.full(lanes, time)
        builder.decide(view, Answer(actions, {}, None, 0), None)
        step = env.step({GROUP: actions.reshape(env.num_envs, -1)})
        view, time = as_lanes(step.turns[GROUP]), time + 1
        if builder.observe(view, step.advanced):
            taken = reader.take(0.0)
            assert taken is not None
            got.append([table(taken[0].fragment, lane) for lane in range(lanes)])
            reader.free()
    return got


def table(fragment: Fragment, lane: int) -> list[Row]:
    """Rows as (observation, action, reward, end, first); only the observation where there is nothing to learn."""
    rows: list[Row] = []
    for row in range(len(fragment.reward)):
        seen = float(fragment.observation[row, lane, 0])
        if not fragment.valid[row, lane]:
            rows.append((seen,))
            continue
        ends = (fragment.terminated[row, lane], "terminated"), (fragment.truncated[row, lane], "truncated")
        end = " ".join(word for flag, word in ends if flag) or "-"
        reward, first = float(fragment.reward[row, lane]), bool(fragment.first[row, lane])
        rows.append((seen, int(fragment.action[row, lane]), reward, end, first))
    return rows


def loop(game: Any, copies: int = 1) -> PettingZooLoop:
    return PettingZooLoop([game] * copies, "script")


@pytest.mark.parametrize("dead_first", [True, False])
@pytest.mark.parametrize("reuse", [True, False])
def test_rewards_in_the_turn_of_another_belong_to_the_last_action(dead_first: bool, reuse: bool) -> None:
    env = loop(InTurn(DUEL, ["p_0", "p_1"], dead_first=dead_first, reuse=reuse))
    one, two = fragments(env, unroll=4, count=2)
    # p_0 sees the number of steps so far, p_1 that plus 10; an episode has four steps
    assert one[0][:4] == [
        (0, 0, 1 + 2, "-", True),
        (2, 2, 0 + 3, "terminated", False),
        (0, 4, 1 + 2, "-", True),
        (2,),  # decided in step 6, still open when the other lane is full
    ]
    assert one[1] == [
        (11, 1, 5 + 7, "-", True),
        (13, 3, 4, "truncated", False),
        (14,),  # what the truncated agent saw last
        (11, 5, 5 + 7, "-", True),
        (13,),  # what the last row led to
    ]
    assert two[0][:2] == [(2, 6, 3, "terminated", False), (0, 8, 3, "-", True)]
    assert two[1][:3] == [(13, 7, 4, "truncated", False), (14,), (11, 9, 12, "-", True)]


DEATH = [
    Beat(rewards={"p_0": 1, "p_1": 2, "p_2": 3}),
    Beat(rewards={"p_0": 1, "p_1": 20, "p_2": 3}, terminated=("p_1",)),
    Beat(rewards={"p_0": 1, "p_2": 30}, truncated=("p_2",)),
    Beat(rewards={"p_0": 10}, terminated=("p_0",)),
]


def test_who_dies_is_out_until_the_next_episode() -> None:
    (one,) = fragments(loop(Together(DEATH, PLAYERS)), unroll=6, count=1)
    assert one[0][:6] == [
        (0, 0, 1, "-", True),
        (1, 1, 1, "-", False),
        (2, 2, 1, "-", False),
        (3, 3, 10, "terminated", False),
        (0, 4, 1, "-", True),
        (1, 5, 1, "-", False),
    ]
    assert one[1][:4] == [
        (10, 0, 2, "-", True),
        (11, 1, 20, "terminated", False),
        (10, 4, 2, "-", True),  # the next episode: two steps went by without it
        (11, 5, 20, "terminated", False),
    ]
    assert one[2][:6] == [
        (20, 0, 3, "-", True),
        (21, 1, 3, "-", False),
        (22, 2, 30, "truncated", False),
        (23,),  # what it saw last
        (20, 4, 3, "-", True),
        (21, 5, 3, "-", False),
    ]


BIRTH = [
    Beat(rewards={"p_0": 1}, born=("p_1",)),
    Beat(rewards={"p_0": 1, "p_1": 5}, terminated=("p_0",), born=("p_2",)),
    Beat(rewards={"p_1": 5, "p_2": 7}, terminated=("p_1",)),
    Beat(rewards={"p_2": 7}, truncated=("p_2",)),
]


def test_who_is_born_late_begins_an_episode_there() -> None:
    (one,) = fragments(loop(Together(BIRTH, PLAYERS, start=["p_0"])), unroll=5, count=1)
    assert one[0][:4] == [
        (0, 0, 1, "-", True),
        (1, 1, 1, "terminated", False),
        (0, 4, 1, "-", True),
        (1, 5, 1, "terminated", False),
    ]
    assert one[1][:4] == [
        (11, 1, 5, "-", True),
        (12, 2, 5, "terminated", False),
        (11, 5, 5, "-", True),
        (12, 6, 5, "terminated", False),
    ]
    assert one[2][:5] == [
        (22, 2, 7, "-", True),
        (23, 3, 7, "truncated", False),
        (24,),
        (22, 6, 7, "-", True),
        (23, 7, 7, "truncated", False),
    ]


TURNS = [
    Beat("p_0", rewards={"p_0": 1}),
    Beat("p_1", rewards={"p_0": 2, "p_1": 3}, born=("p_2",)),
    Beat("p_0", rewards={"p_0": 4, "p_2": 50}, terminated=("p_1",)),
    Beat("p_2", rewards={"p_0": 5, "p_2": 6}),
    Beat("p_0", rewards={"p_2": 7}, terminated=("p_0",)),
    Beat("p_2", rewards={"p_2": 8}, truncated=("p_2",)),
]


@pytest.mark.parametrize("dead_first", [True, False])
def test_death_and_birth_between_turns(dead_first: bool) -> None:
    game = InTurn(TURNS, PLAYERS, start=["p_0", "p_1"], dead_first=dead_first)
    (one,) = fragments(loop(game), unroll=4, count=1)
    assert one[0][:4] == [
        (0, 0, 1 + 2, "-", True),
        (2, 2, 4 + 5, "-", False),
        (4, 4, 0, "terminated", False),
        (0, 6, 1 + 2, "-", True),
    ]
    # killed in the turn of p_0, at once, though its own turn never comes
    assert one[1][:1] == [(11, 1, 3, "terminated", True)]
    # born in step 1; the 50 came before its first action, so nothing it did has earned them
    assert one[2][:3] == [(23, 3, 6 + 7, "-", True), (25, 5, 8, "truncated", False), (26,)]


def test_copies_do_not_mix() -> None:
    games = [InTurn(DUEL, ["p_0", "p_1"]), InTurn([*DUEL[:2], *DUEL], ["p_0", "p_1"])]
    alone = [fragments(loop(game), unroll=4, count=1)[0] for game in games]
    (both,) = fragments(PettingZooLoop(games, "script"), unroll=4, count=1)
    for copy, fragment in enumerate(alone):
        for lane in range(2):
            together = [row for row in both[2 * copy + lane] if len(row) > 1]
            assert len(together) >= 2
            assert together == [row for row in fragment[lane] if len(row) > 1][: len(together)]
