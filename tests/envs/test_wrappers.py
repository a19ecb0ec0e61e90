"""Wrappers by name: each keeps the contract of Env around every kind of environment, and does what its name says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.wrappers import WRAPPERS, learnt_scale
from shoal.testing.env import check_env
from shoal.testing.recording import copy_step
from shoal.testing.sampler import ActionSampler
from tests.envs.sample_worlds import Drawing

MIXED = Dict(
    {
        "place": Box(-1.0, 1.0, (2, 2), np.float32),
        "kind": Discrete(3, start=1),
        "dials": MultiDiscrete([2, 3]),
        "eye": Box(0, 255, (4,), np.uint8),
    }
)


def mixed() -> gymnasium.Env:
    return Drawing(MIXED)


def film() -> gymnasium.Env:
    return Drawing(Box(0, 255, (40, 36, 3), np.uint8), length=9)


HERE = "tests.envs.test_wrappers"
LOOP = {"id": "Acrobot-v1"}
NEXT_STEP = {"id": "CartPole-v1"}
DEATHS = {"id": "shoal/multi-cartpole"}
TURNS = {"id": "shoal/connect-four"}
GROUPS = {"id": "shoal/signal", "kwargs": {"rounds": 3}}
IDLE_CALLS = {"id": "shoal/signal", "kwargs": {"rounds": 3, "autoreset": "next"}}
STAGGERED = {"id": "tests.envs.test_native_env:Staggered"}
LATER = {**STAGGERED, "kwargs": {"autoreset": "next"}}
AEC = {"id": "zoo_worlds:make_duel"}
PARALLEL = {"id": "zoo_worlds:make_together"}


def made(env: dict[str, Any], copies: int = 2, first_slot: int = 0, **settings: Any) -> Env:
    return make_env(EnvConfig(**env, **settings), copies, first_slot=first_slot)


def played(env: Env, steps: int, seed: int = 3) -> Iterator[tuple[Step, dict[str, np.ndarray]]]:
    """Random play: each answer, and the actions that follow on it."""
    sampler, step = ActionSampler(env.groups, env.num_envs, 5), env.reset(seed)
    for _ in range(steps):
        actions = sampler.sample(step)
        yield copy_step(step), actions
        step = env.step(actions)


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize(
    ("env", "wrappers"),
    [
        (LOOP, ["flatten", {"frame_stack": 3}, {"time_limit": 17}, {"sticky": 0.3}, "normalise", {"reward_scale": 0.1}]),
        (NEXT_STEP, [{"frame_stack": 4}, {"time_limit": 9}, {"sticky": 0.25}]),
        ({**NEXT_STEP, "vector": "loop"}, [{"sticky": 0.25}, {"time_limit": 9}, {"frame_stack": 4}, "flatten"]),
        (DEATHS, [{"frame_stack": 2}]),
        (DEATHS, [{"time_limit": 7}, {"sticky": 0.5}, {"frame_stack": 3}, "flatten"]),
        (TURNS, [{"sticky": 0.5}, {"frame_stack": 2}]),
        (TURNS, [{"time_limit": 5}, "flatten"]),
        (GROUPS, [{"frame_stack": 3}, {"sticky": 0.25}]),
        (GROUPS, ["flatten", {"time_limit": 3}]),
        (IDLE_CALLS, [{"time_limit": 5}, {"frame_stack": 3}, {"sticky": 0.25}]),
        (STAGGERED, ["one_hot", {"frame_stack": 3}, {"sticky": 0.25}]),
        (STAGGERED, [{"time_limit": 2}, "flatten"]),
        (LATER, [{"time_limit": 2}, "one_hot", {"frame_stack": 2}]),
        (AEC, [{"frame_stack": 2}, {"sticky": 0.5}]),
        (AEC, [{"time_limit": 1}, {"frame_stack": 3}]),
        (PARALLEL, [{"time_limit": 2}, {"sticky": 0.5}, {"frame_stack": 2}, "flatten"]),
        ({"id": f"{HERE}:mixed"}, ["one_hot", {"frame_stack": 2}, {"time_limit": 3}]),
        ({"id": f"{HERE}:mixed"}, ["flatten", {"sticky": 0.25}]),
        ({"id": f"{HERE}:film"}, [{"frame_stack": 3}]),
    ],
    ids=str,
)  # fmt: skip
def test_wrapped_environments_conform(env: dict[str, Any], wrappers: list[Any]) -> None:
    checks = check_env(lambda copies: made(env, copies, wrappers=wrappers), steps=60)
    assert [check for check in checks if not check.passed] == []
    ends = next(check for check in checks if check.name == "an end shows the last observation")
    assert not ends.detail, "episodes end in these steps"


def test_what_is_passed_on() -> None:
    with closing(made(NEXT_STEP, wrappers=["flatten", {"sticky": 0.1}])) as env:
        plain = made(NEXT_STEP)
        assert env.render_fps == plain.render_fps
        assert env.game_return == "sum"
        assert env.snapshot() is not None, "CartPole has snapshots"
    with closing(made({"id": "shoal/spread"}, wrappers=[{"time_limit": 5}])) as spread:
        assert spread.game_return == "mean"
        assert spread.reset(0).state is not None
        spread.wants_state = False
        assert spread.reset(0).state is None
    drawn = make_env(EnvConfig(id="shoal/spread", wrappers=[{"frame_stack": 2}]), 1, render=True)
    drawn.reset(0)
    assert drawn.render(0) is not None
    with closing(made(TURNS, wrappers=[{"frame_stack": 2}])) as board:
        turn, before = board.reset(0).turns["player"], made(TURNS)
        first = before.reset(0).turns["player"].observation[0, 0]
        assert board.describe("player_0", turn.observation[0, 0]) == before.describe("player_0", first)
        assert board.action_names("player_0") == before.action_names("player_0")


# ---------------------------------------------------------------- frame_stack


def stacked_by_gymnasium() -> gymnasium.Env:
    single = gymnasium.make("Acrobot-v1")
    return gymnasium.wrappers.TimeLimit(gymnasium.wrappers.FrameStackObservation(single, 3), 13)


def test_stacks_are_those_of_gymnasium() -> None:
    theirs = made({"id": f"{HERE}:stacked_by_gymnasium"})
    ours = made(LOOP, wrappers=[{"frame_stack": 3}, {"time_limit": 13}])
    assert ours.groups == theirs.groups
    assert ours.groups["agent"].stacked == 3
    ended = 0
    for (one, _), (other, _) in zip(played(ours, 40), played(theirs, 40), strict=True):
        mine, yours = one.turns["agent"], other.turns["agent"]
        np.testing.assert_array_equal(mine.observation, yours.observation)
        np.testing.assert_array_equal(mine.truncated, yours.truncated)
        if (over := yours.terminated | yours.truncated).any():
            ended += 1
            np.testing.assert_array_equal(mine.final_observation[over], yours.final_observation[over])
    assert ended == 3


@pytest.mark.parametrize(
    "env",
    [NEXT_STEP, DEATHS, TURNS, GROUPS, IDLE_CALLS, AEC, PARALLEL, {**TURNS, "wrappers": [{"time_limit": 3}]}],
    ids=str,
)
def test_a_stack_moves_on_with_its_agent(env: dict[str, Any]) -> None:
    """From one decision of an agent to its next, and to what it saw last; an episode begins with one image, repeated."""
    frames = 3
    wrapped = made({**env, "wrappers": [*env.get("wrappers", []), {"frame_stack": frames}]})
    before: dict[tuple[str, int, int], np.ndarray] = {}
    moved = began = 0
    for step, _ in played(wrapped, 60):
        for group, turn in step.turns.items():
            assert turn.observation.shape[2] == wrapped.groups[group].stacked == frames
            for place in np.argwhere(turn.terminated | turn.truncated).tolist():
                last = (turn.observation if turn.final_observation is None else turn.final_observation)[tuple(place)]
                if (known := before.pop((group, *place), None)) is not None:
                    np.testing.assert_array_equal(last[:-1], known[1:])
            for place in np.argwhere(turn.acting).tolist():
                seen = turn.observation[tuple(place)]
                known = before.get((group, *place))
                if known is None:
                    began += 1
                    assert all((image == seen[0]).all() for image in seen)
                else:
                    moved += 1
                    np.testing.assert_array_equal(seen[:-1], known[1:])
                before[group, *place] = seen.copy()
    assert moved > 10
    assert began > 4


def test_dicts_are_stacked_part_by_part_and_promise_nothing_to_replay() -> None:
    env = made({"id": f"{HERE}:mixed"}, wrappers=["one_hot", {"frame_stack": 2}])
    group = env.groups["agent"]
    assert group.stacked == 0
    assert {key: part.shape for key, part in group.observation_space.spaces.items()} == {  # type: ignore[attr-defined]
        "place": (2, 2, 2), "kind": (2, 3), "dials": (2, 5), "eye": (2, 4),
    }  # fmt: skip


# ---------------------------------------------------------------- flatten, one_hot


def test_flatten_lays_everything_side_by_side() -> None:
    env, plain = made({"id": f"{HERE}:mixed"}, wrappers=["flatten"]), made({"id": f"{HERE}:mixed"})
    space = env.groups["agent"].observation_space
    assert isinstance(space, Box)
    assert space.shape == (4 + 4 + 5 + 3,)
    row, seen = env.reset(0).turns["agent"].observation[1, 0], plain.reset(0).turns["agent"].observation
    parts = {"dials": seen["dials"][1, 0], "eye": seen["eye"][1, 0], "kind": seen["kind"][1, 0]}
    order = list(plain.groups["agent"].observation_space.spaces)  # type: ignore[attr-defined]
    pieces = {
        "place": seen["place"][1, 0].ravel(),
        "kind": np.eye(3)[parts["kind"] - 1],
        "dials": np.concatenate([np.eye(2)[parts["dials"][0]], np.eye(3)[parts["dials"][1]]]),
        "eye": parts["eye"] / 255,
    }
    np.testing.assert_allclose(row, np.concatenate([pieces[key] for key in order]), rtol=1e-6)


def test_bytes_stay_bytes() -> None:
    env = made({"id": f"{HERE}:film"}, wrappers=["flatten"])
    assert env.groups["agent"].observation_space == Box(0, 255, (40 * 36 * 3,), np.uint8)
    assert env.reset(0).turns["agent"].observation.dtype == np.uint8


# ---------------------------------------------------------------- time_limit


def test_a_time_limit_truncates_and_a_termination_stays_one() -> None:
    env = made({"id": "sample_worlds:Counting"}, kwargs={"length": 3}, wrappers=[{"time_limit": 3}])
    ends = [step.turns["agent"] for step, _ in played(env, 9) if step.episodes]
    assert ends
    assert all(turn.terminated.all() and not turn.truncated.any() for turn in ends)
    env = made({"id": "sample_worlds:Counting"}, kwargs={"length": 9}, wrappers=[{"time_limit": 4}, {"time_limit": 7}])
    episodes = [(step.turns["agent"], episode) for step, _ in played(env, 9) for episode in step.episodes]
    assert len(episodes) == 4
    for turn, episode in episodes:
        assert turn.truncated.all()
        assert not turn.terminated.any()
        assert (episode.length, episode.returns["agent"], episode.metrics) == (4, [1 + 2 + 3 + 4], {"doubled": 8.0})


@pytest.mark.parametrize("env", [NEXT_STEP, {**NEXT_STEP, "vector": "loop"}, DEATHS, TURNS, GROUPS], ids=str)
def test_no_episode_is_longer(env: dict[str, Any]) -> None:
    with closing(made(env, 4, wrappers=[{"time_limit": 3}])) as wrapped:
        lengths = [episode.length for step, _ in played(wrapped, 30) for episode in step.episodes]
    assert max(lengths) == 3
    assert len(lengths) >= 4


def test_of_a_turn_taking_game_a_step_is_a_turn() -> None:
    env = made(AEC, 1, wrappers=[{"time_limit": 1}])
    ends = [step for step, _ in played(env, 4) if step.episodes]
    assert [step.episodes[0].length for step in ends] == [1, 1, 1]
    for step in ends:
        turns = list(step.turns.values())
        assert all(turn.truncated.all() and not turn.terminated.any() for turn in turns)
        assert all(turn.final_observation is not None for turn in turns)


# ---------------------------------------------------------------- sticky


def stuck_actions(
    copies: int, first_slot: int = 0, share: float = 0.3, steps: int = 400
) -> tuple[np.ndarray, np.ndarray]:
    """Sent and played `[steps, copies]`, in episodes of 5 steps."""
    env = made(
        {"id": "sample_worlds:Counting"}, copies, first_slot, wrappers=[{"sticky": share}],
        kwargs={"length": 5, "action_space": Discrete(10**6)},
    )  # fmt: skip
    env.reset(3)
    sent = np.arange(steps)[:, None] * 1000 + first_slot + np.arange(copies)
    for row in sent:
        env.step({"agent": row[:, None]})
    return sent, np.array([copy.actions for copy in env._env._envs]).T  # type: ignore[attr-defined]


def test_sticky_repeats_what_was_played_and_begins_episodes_anew() -> None:
    sent, got = stuck_actions(4)
    same = sent == got
    assert same[::5].all(), "the first action of an episode"
    assert 0.6 < same.mean() < 0.85
    assert 1 - same[np.arange(400) % 5 != 0].mean() == pytest.approx(0.3, abs=0.04)
    np.testing.assert_array_equal(got[1:][~same[1:]], got[:-1][~same[1:]], "the one that was played")
    assert any(len(set(row)) > 1 for row in same), "each copy draws by itself"


def test_sticky_does_not_depend_on_how_copies_are_split() -> None:
    whole = stuck_actions(4)[1]
    parts = [stuck_actions(2, first_slot)[1] for first_slot in (0, 2)]
    np.testing.assert_array_equal(whole, np.concatenate(parts, axis=1))


def test_sticky_plays_no_forbidden_action() -> None:
    """Connect Four punishes one; columns fill up."""
    env = made(TURNS, 8, wrappers=[{"sticky": 0.9}])
    for step, _ in played(env, 200):
        for episode in step.episodes:
            assert episode.length >= 7, "nobody lost by an illegal move"


# ---------------------------------------------------------------- settings


def test_the_scale_of_rewards_is_no_affair_of_the_environment() -> None:
    config = EnvConfig(id="Acrobot-v1", wrappers=[{"reward_scale": 0.5}, {"reward_scale": 0.1}])
    assert learnt_scale(config) == pytest.approx(0.05)
    assert learnt_scale(EnvConfig(id="Acrobot-v1")) == 1.0
    env = make_env(config, 1)
    env.reset(0)
    assert env.step({"agent": np.zeros((1, 1), np.int64)}).turns["agent"].reward.item() == -1.0


def test_single_wrappers_and_names_go_together() -> None:
    env = made({"id": "sample_worlds:Counting"}, wrappers=["sample_worlds:Shifted", {"frame_stack": 2}])
    assert env.reset(0).turns["agent"].observation[0, 0].tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("env_id", "wrappers", "words"),
    [
        ("Acrobot-v1", ["frame_stak"], ["env.wrappers = 'frame_stak'", "did you mean 'frame_stack'?", "module:Name"]),
        ("Acrobot-v1", ["normalize"], ["did you mean 'normalise'?"]),
        ("Acrobot-v1", [{"tyme_limit": 3}], ["env.wrappers = 'tyme_limit'", "did you mean 'time_limit'?"]),
        ("Acrobot-v1", ["frame_stack"], ["env.wrappers = 'frame_stack'", "whole number, at least 2", "frame_stack: 4"]),
        ("Acrobot-v1", [{"frame_stack": 1}], ["env.wrappers.frame_stack = 1", "at least 2"]),
        ("Acrobot-v1", [{"frame_stack": True}], ["env.wrappers.frame_stack = True", "whole number"]),
        ("Acrobot-v1", [{"time_limit": "5m"}], ["env.wrappers.time_limit = 5m", "time_limit: 500"]),
        ("Acrobot-v1", [{"sticky": 1.0}], ["env.wrappers.sticky = 1.0", "between 0 and 1"]),
        ("Acrobot-v1", [{"reward_scale": 0}], ["env.wrappers.reward_scale = 0", "above 0"]),
        ("Acrobot-v1", [{"flatten": True}], ["env.wrappers.flatten = True", "write flatten alone"]),
        ("Acrobot-v1", [{"normalise": 3}], ["env.wrappers.normalise = 3", "write normalise alone"]),
        ("Acrobot-v1", ["one_hot"], ["env.wrappers = 'one_hot'", "'Acrobot-v1' shows nothing", "remove it"]),
        ("shoal/deep-sea", [{"frame_stack": 2}], ["env.wrappers.frame_stack = 2", "MultiBinary", "one_hot or flatten"]),
        ("sample_worlds:make_vector", [{"time_limit": 9}], ["env.wrappers.time_limit = 9", "env.kwargs"]),
        ("Acrobot-v1", ["flatten", "sample_worlds:Shifted"], ["'sample_worlds:Shifted'", "list it before 'flatten'"]),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(env_id: str, wrappers: list[Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        made({"id": env_id}, wrappers=wrappers)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("wrappers", [[{"sticky": 0.1, "time_limit": 3}], [{}]])
def test_an_entry_has_one_name(wrappers: list[Any]) -> None:
    with pytest.raises(InputError, match=r"env\.wrappers\.0 = .*one name with its value, as in frame_stack: 4"):
        EnvConfig.parse({"id": "Acrobot-v1", "wrappers": wrappers}, at="env")


def test_every_name_is_tried_here() -> None:
    """A new name belongs into the cases of the contract above."""
    (mark,) = (m for m in test_wrapped_environments_conform.pytestmark if m.name == "parametrize")
    tried = {
        entry if isinstance(entry, str) else next(iter(entry)) for _, wrappers in mark.args[1] for entry in wrappers
    }
    assert tried == set(WRAPPERS)
