"""Single gymnasium environments in a loop: arrays, autoreset, seeds, masks, faults."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Text, Tuple
from sample_worlds import Counting, Drawing

from shoal.api.env import Step
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.base.tree import tree_leaves
from shoal.envs import make_env
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.testing.env import check_env

ACTION = {"agent": np.zeros((2, 1), np.int64)}


def loop(*envs: gymnasium.Env, first_slot: int = 0) -> GymnasiumLoop:
    return GymnasiumLoop(list(envs), "World", first_slot=first_slot)


def turn(step: Step) -> Any:
    return step.turns["agent"]


# ---------------------------------------------------------------- conformance


@pytest.mark.parametrize(
    "world", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0", "FrozenLake-v1", "Taxi-v4"]
)
def test_registered_worlds_conform(world: str) -> None:
    config = EnvConfig(id=world, vector="loop", kwargs={"max_episode_steps": 15})
    checks = check_env(lambda copies: make_env(config, copies), steps=50)
    assert [check for check in checks if not check.passed] == []
    assert not any("no episode ended" in check.detail for check in checks)


@pytest.mark.filterwarnings("ignore:builtin type \\w+ has no __module__ attribute:DeprecationWarning")
def test_box2d_conforms() -> None:
    checks = check_env(lambda copies: make_env(EnvConfig(id="LunarLander-v3"), copies), steps=120)
    assert [check for check in checks if not check.passed] == []


SPACES = {
    "discrete": Discrete(5),
    "discrete from 3": Discrete(5, start=3),
    "multidiscrete": MultiDiscrete([2, 3, 4]),
    "grid": MultiDiscrete([[2, 3], [4, 5]]),
    "multibinary": MultiBinary(3),
    "vector": Box(-1, 1, (3,), np.float32),
    "doubles": Box(-1, 1, (3,), np.float64),
    "number": Box(-1, 1, (), np.float32),
    "image": Box(0, 255, (6, 5, 3), np.uint8),
    "dict": Dict(z=Box(-1, 1, (2,)), a=Dict(deep=Discrete(3), image=Box(0, 255, (2, 2), np.uint8))),
    "tuple": Tuple([Discrete(3), Tuple([Box(0, 1, (2,), np.float64), MultiBinary(2)])]),
}


@pytest.mark.parametrize("name", SPACES)
def test_every_supported_observation_space_conforms(name: str) -> None:
    checks = check_env(lambda copies: loop(*[Drawing(SPACES[name]) for _ in range(copies)]), steps=30)
    assert [check for check in checks if not check.passed] == []


@pytest.mark.parametrize("name", SPACES)
def test_arrays_hold_what_the_worlds_showed(name: str) -> None:
    worlds = [Drawing(SPACES[name]) for _ in range(2)]
    env = loop(*worlds)
    step = env.reset(3)
    for _ in range(6):
        for row, world in enumerate(worlds):
            shown = dict(tree_leaves(world.shown))
            for path, leaf in tree_leaves(turn(step).observation):
                assert np.array_equal(leaf[row, 0], np.asarray(shown[path]).astype(leaf.dtype))
        step = env.step(ACTION)


def test_doubles_are_declared_as_floats() -> None:
    space = loop(Drawing(SPACES["tuple"])).groups["agent"].observation_space
    assert isinstance(space, Tuple)
    assert space[1][0].dtype == np.float32
    assert space[0] == Discrete(3)


def test_bounds_beyond_float_are_no_bounds() -> None:
    space = loop(Drawing(Box(-1.0, np.finfo(np.float64).max, (2,), np.float64))).groups["agent"].observation_space
    assert np.array_equal(space.high, np.full(2, np.inf, np.float32))


def test_a_dict_keeps_the_order_of_the_world() -> None:
    space = Dict([("z", Discrete(2)), ("a", Discrete(2))])
    env = loop(Drawing(space))
    assert list(env.groups["agent"].observation_space.spaces) == ["z", "a"]
    assert list(turn(env.reset(0)).observation) == ["z", "a"]


@pytest.mark.parametrize("space", [Text(4), Sequence(Discrete(2)), Dict(words=Text(3))])
def test_an_observation_without_an_array_is_refused(space: Any) -> None:
    with pytest.raises(InputError, match=r"env\.id = 'World'.*(Text|Sequence).*env\.wrappers"):
        loop(Drawing(space))


@pytest.mark.parametrize("space", [Dict(a=Discrete(2)), Tuple([Discrete(2)]), Text(3)])
def test_an_action_space_without_a_policy_is_refused(space: Any) -> None:
    with pytest.raises(InputError, match=r"env\.id = 'World'.*(Dict|Tuple|Text)"):
        loop(Drawing(Discrete(2), space))


def test_copies_must_have_equal_spaces() -> None:
    with pytest.raises(InputError, match="spaces of its copies differ"):
        loop(Drawing(Discrete(2)), Drawing(Discrete(3)))


# ---------------------------------------------------------------- actions


@pytest.mark.parametrize(
    ("space", "sent", "received"),
    [
        (Discrete(3), 2, 2),
        (Discrete(3, start=5), 2, 7),
        (Discrete(3, start=-1), 0, -1),
        (MultiDiscrete([3, 4], start=[10, 20]), [2, 3], [12, 23]),
        (MultiBinary(3), [1, 0, 1], [1, 0, 1]),
        (Box(-1.0, 2.0, (2,), np.float32), [-3.0, 0.5], [-1.0, 0.5]),
        (Box(-1.0, 2.0, (2,), np.float64), [0.25, 9.0], [0.25, 2.0]),
        (Box(-np.inf, np.inf, (1,), np.float32), [1e6], [1e6]),
    ],
)
def test_actions_arrive_in_the_space_of_the_world(space: Any, sent: Any, received: Any) -> None:
    world = Drawing(Discrete(2), space)
    env = loop(world)
    env.reset(0)
    dtype = np.float32 if isinstance(space, Box) else np.int64
    env.step({"agent": np.asarray(sent, dtype)[None, None]})
    assert np.array_equal(world.actions[0], received)
    assert space.contains(world.actions[0])


def test_policies_count_choices_from_zero() -> None:
    assert loop(Drawing(Discrete(2), Discrete(3, start=5))).groups["agent"].action_space == Discrete(3)
    multi = loop(Drawing(Discrete(2), MultiDiscrete([3, 4], start=[1, 2]))).groups["agent"].action_space
    assert multi == MultiDiscrete([3, 4])


def test_actions_may_be_overwritten_after_send() -> None:
    world = Counting(action_space=Box(-1.0, 1.0, (1,), np.float32))
    env = loop(world)
    env.reset(0)
    action = np.full((1, 1, 1), 0.5, np.float32)
    env.send({"agent": action})
    action[:] = -0.5
    env.recv(1.0)
    assert world.actions[0].tolist() == [0.5]


# ---------------------------------------------------------------- ends


def test_same_step_autoreset_shows_both_observations() -> None:
    env = loop(Counting(length=2), Counting(length=3))
    assert turn(env.reset(0)).observation[:, 0, 0].tolist() == [0, 0]
    first = env.step(ACTION)
    assert turn(first).final_observation is None
    assert first.episodes == []
    second = env.step(ACTION)
    assert turn(second).observation[:, 0, 0].tolist() == [0, 2]
    assert turn(second).final_observation[0, 0].tolist() == [2, 2]
    assert turn(second).terminated[:, 0].tolist() == [True, False]
    assert turn(second).acting.all()
    assert second.advanced == 2
    third = env.step(ACTION)
    assert turn(third).terminated[:, 0].tolist() == [False, True]
    assert turn(third).reward[:, 0].tolist() == [1, 3]


def test_termination_and_truncation_stay_apart() -> None:
    env = loop(Counting(length=1), Counting(limit=1), Counting(length=1, limit=1))
    env.reset(0)
    step = env.step({"agent": np.zeros((3, 1), np.int64)})
    assert turn(step).terminated[:, 0].tolist() == [True, False, True]
    assert turn(step).truncated[:, 0].tolist() == [False, True, True]


def test_episodes_carry_returns_lengths_and_metrics() -> None:
    env = loop(Counting(length=3), Counting(length=4))
    env.reset(0)
    episodes = [episode for _ in range(8) for episode in env.step(ACTION).episodes]
    assert [(e.row, e.length, e.returns["agent"].tolist(), e.metrics) for e in episodes] == [
        (0, 3, [6.0], {"doubled": 6.0}),
        (1, 4, [10.0], {"doubled": 8.0}),
        (0, 3, [6.0], {"doubled": 6.0}),
        (1, 4, [10.0], {"doubled": 8.0}),
    ]


def test_reset_starts_the_books_anew() -> None:
    env = loop(Counting(length=3))
    env.reset(0)
    one = {"agent": np.zeros((1, 1), np.int64)}
    env.step(one)
    env.reset(0)
    episodes = [episode for _ in range(3) for episode in env.step(one).episodes]
    assert [(e.length, e.returns["agent"].tolist()) for e in episodes] == [(3, [6.0])]


def test_a_world_that_reuses_its_array_keeps_its_last_observation() -> None:
    env = loop(Counting(length=2, reuse=True), Counting(length=2, reuse=True))
    env.reset(0)
    env.step(ACTION)
    step = env.step(ACTION)
    assert turn(step).final_observation[:, 0, 0].tolist() == [2, 2]
    assert turn(step).observation[:, 0, 0].tolist() == [0, 0]


def test_arrays_are_written_in_place() -> None:
    env = loop(Counting(), Counting())
    first = turn(env.reset(0))
    second = turn(env.step(ACTION))
    for field in ("observation", "reward", "terminated", "truncated", "acting"):
        assert getattr(first, field) is getattr(second, field)


# ---------------------------------------------------------------- seeds


def test_seeds_follow_from_the_slot_and_the_episode() -> None:
    worlds = [Counting(length=2), Counting(length=3)]
    env = loop(*worlds, first_slot=4)
    env.reset(9)
    for _ in range(4):
        env.step(ACTION)
    assert worlds[0].seeds == [derive_seed(9, "episode", 4, episode) for episode in range(3)]
    assert worlds[1].seeds == [derive_seed(9, "episode", 5, episode) for episode in range(2)]


@pytest.mark.parametrize("world", ["CartPole-v1", "Pendulum-v1"])
def test_copies_do_not_depend_on_how_they_are_split(world: str) -> None:
    config = EnvConfig(id=world, vector="loop", kwargs={"max_episode_steps": 12})
    whole = make_env(config, 8)
    halves = [make_env(config, 4), make_env(config, 4, first_slot=4)]
    space = whole.groups["agent"].action_space
    space.seed(0)
    answers = [whole.reset(5), *(half.reset(5) for half in halves)]
    for _ in range(40):
        rows = [np.concatenate([turn(answer).observation for answer in answers[1:]]), turn(answers[0]).observation]
        assert np.array_equal(*rows)
        actions = np.stack([space.sample() for _ in range(8)])[:, None]
        parts = [actions, actions[:4], actions[4:]]
        answers = [env.step({"agent": part}) for env, part in zip([whole, *halves], parts, strict=True)]


# ---------------------------------------------------------------- the rest


def test_render_draws_one_copy() -> None:
    env = loop(Drawing(Discrete(2), render_mode="rgb_array"))
    env.reset(0)
    picture = env.render(0)
    assert picture is not None
    assert picture.shape == (4, 5, 3)
    assert loop(Drawing(Discrete(2))).render(0) is None


def test_close_closes_every_copy() -> None:
    worlds = [Counting(), Counting()]
    loop(*worlds).close()
    assert all(world.closed for world in worlds)
