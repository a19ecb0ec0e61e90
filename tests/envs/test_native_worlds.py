"""Native environments with known answers: the two-step game, poles side by side, food on a grid; and the books they share."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from shoal.api.env import Array, Step
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.native.foraging import Foraging
from shoal.envs.native.multi_cartpole import MultiCartPole
from shoal.envs.native.row_random import RowRandom
from shoal.envs.native.two_step import TwoStep
from shoal.testing.env import check_env
from shoal.testing.sampler import ActionSampler

CASES: list[tuple[str, dict[str, Any]]] = [
    ("shoal/two-step", {}),
    ("shoal/two-step", {"agent_id": False}),
    ("shoal/multi-cartpole", {"agents": 3}),
    ("shoal/multi-cartpole", {"agents": 2, "groups": "own", "max_steps": 15}),
    ("shoal/multi-cartpole", {"agents": 1}),
    ("shoal/memory-corridor", {"length": 2}),
    ("shoal/foraging", {"max_steps": 20}),
    ("shoal/foraging", {"players": 4, "food": 1, "size": 3, "cooperative": True, "max_steps": 12}),
]


@pytest.mark.parametrize(("env_id", "kwargs"), CASES, ids=str)
def test_native_worlds_conform(env_id: str, kwargs: dict[str, Any]) -> None:
    checks = check_env(lambda copies: make_env(EnvConfig(id=env_id, kwargs=kwargs), copies), steps=120)
    assert [check for check in checks if not check.passed] == []
    assert not any("no snapshots" in check.detail or "no episode ended" in check.detail for check in checks)


@pytest.mark.parametrize("env_id", ["shoal/multi-cartpole", "shoal/foraging"])
def test_a_native_copy_lives_the_same_life_however_copies_are_split(env_id: str) -> None:
    def life(copies: int, first_slot: int) -> list[Array]:
        env = make_env(EnvConfig(id=env_id, kwargs={"max_steps": 6}), copies, first_slot=first_slot)
        step, seen = env.reset(2), []
        for time in range(20):
            seen.append(step.state)
            shapes = {name: (copies, len(group.agents)) for name, group in env.groups.items()}
            step = env.step({name: np.full(shape, time % 2, np.int64) for name, shape in shapes.items()})
        return seen

    for whole, left, right in zip(life(12, 0), life(5, 0), life(7, 5), strict=True):
        assert np.array_equal(whole, np.concatenate([left, right]))


def test_a_restored_world_records_the_whole_episode() -> None:
    env, other = MultiCartPole(1, max_steps=4), MultiCartPole(1, max_steps=4)
    push = {"pole": np.zeros((1, 2), np.int64)}
    env.reset(0)
    env.step(push)
    tree = env.snapshot()
    env.step(push)
    other.reset(1)
    other.restore(tree)
    for _ in range(3):
        step = other.step(push)
    assert [(episode.length, episode.returns["pole"].tolist()) for episode in step.episodes] == [(4, [4, 4])]


# ---------------------------------------------------------------- chance


def test_chance_is_a_function_of_its_key() -> None:
    slots, episodes, times = np.arange(6), np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
    whole = RowRandom(7, slots, episodes, times).uniform(0, 1, 3)
    part = RowRandom(7, slots[3:5], episodes[3:5], times[3:5]).uniform(0, 1, 3)
    assert np.array_equal(whole[:, 3:5], part)
    for key in (
        (8, slots, episodes, times),
        (7, slots + 1, episodes, times),
        (7, slots, episodes + 1, times),
        (7, slots, episodes, times + 2),
    ):
        assert not np.isin(RowRandom(*key).uniform(0, 1, 3)[:, 0], whole[:, 0]).any()


def test_chance_is_uniform_and_goes_on() -> None:
    zeros = np.zeros(2000, np.int64)
    random = RowRandom(0, np.arange(2000), zeros, zeros)
    first, second = random.uniform(-1, 1, 5), random.uniform(-1, 1, 5)
    values = np.concatenate([first, second])
    assert -1 <= values.min() < -0.99
    assert 0.99 < values.max() < 1
    assert abs(values.mean()) < 0.02
    assert values.std() == pytest.approx(2 / 12**0.5, rel=0.02)
    between = np.corrcoef(values)
    assert np.abs(between - np.eye(10)).max() < 0.1
    assert abs(np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]) < 0.03
    assert np.bincount(random.integers(5, 4).ravel()).min() > 1450


# ---------------------------------------------------------------- two-step


@pytest.mark.parametrize(
    ("first", "second", "pay"),
    [
        ((0, 0), (0, 0), 7),
        ((0, 1), (1, 1), 7),
        ((1, 0), (0, 0), 0),
        ((1, 1), (1, 0), 1),
        ((1, 0), (0, 1), 1),
        ((1, 0), (1, 1), 8),
    ],
)
def test_two_step_pays_what_the_paper_says(first: tuple[int, int], second: tuple[int, int], pay: float) -> None:
    env = TwoStep(2)
    assert env.reset(0).state.tolist() == [[1, 0, 0]] * 2
    middle = env.step({"agent": np.array([first] * 2)})
    assert middle.state.tolist() == [[0, 0, 1] if first[0] else [0, 1, 0]] * 2
    assert not middle.turns["agent"].reward.any()
    assert middle.turns["agent"].observation[0].tolist() == [[*middle.state[0], 1, 0], [*middle.state[0], 0, 1]]
    last = env.step({"agent": np.array([second] * 2)})
    assert last.turns["agent"].terminated.all()
    assert last.turns["agent"].reward.tolist() == [[pay, pay]] * 2
    assert [episode.returns["agent"].tolist() for episode in last.episodes] == [[pay, pay]] * 2
    assert last.state.tolist() == [[1, 0, 0]] * 2
    assert pay <= env.best_return == 8


def test_two_step_asks_only_the_first_agent_where_to_go() -> None:
    env = TwoStep(4)
    env.reset(0)
    step = env.step({"agent": np.array([[0, 0], [0, 1], [1, 0], [1, 1]])})
    assert step.state.argmax(axis=1).tolist() == [1, 1, 2, 2]


# ---------------------------------------------------------------- poles side by side


@pytest.mark.parametrize("groups", ["one", "own"])
def test_poles_move_as_in_gymnasium(groups: Any) -> None:
    env = MultiCartPole(4, agents=3, groups=groups)
    peers = [[gymnasium.make("CartPole-v1").unwrapped for _ in range(3)] for _ in range(4)]
    sampler = ActionSampler(env.groups, 4, 0)
    step, falls = env.reset(3), 0

    def joined(step: Step, name: str) -> Array:
        return np.concatenate([getattr(turn, name) for turn in step.turns.values()], axis=1)

    for row, copy in enumerate(peers):
        for agent, peer in enumerate(copy):
            peer.reset()
            peer.state = env.arrays["poles"][:, row, agent].copy()  # type: ignore[attr-defined]
    for _ in range(80):
        actions, acted = sampler.sample(step), joined(step, "acting")
        pushes = np.concatenate(list(actions.values()), axis=1)
        step = env.step(actions)
        ended = {episode.row for episode in step.episodes}
        for row, agent in np.argwhere(acted):
            seen, reward, fell, _, _ = peers[row][agent].step(int(pushes[row, agent]))
            now = joined(step, "final_observation" if row in ended else "observation")[row, agent]
            np.testing.assert_allclose(now, seen, rtol=1e-6, atol=1e-6)
            assert joined(step, "reward")[row, agent] == reward
            assert joined(step, "terminated")[row, agent] == fell
            falls += fell
        for row in ended:
            for agent, peer in enumerate(peers[row]):
                peer.reset()
                peer.state = env.arrays["poles"][:, row, agent].copy()  # type: ignore[attr-defined]
    assert falls > 12


def lean(env: MultiCartPole, row: int, agent: int) -> None:
    env.arrays["poles"][2, row, agent] = 0.2


def test_a_fallen_pole_is_dead_until_all_have_fallen() -> None:
    env = MultiCartPole(2, agents=2)
    env.reset(0)
    lean(env, 0, 1)
    env.arrays["poles"][3, 0, 1] = 1.0
    push = {"pole": np.zeros((2, 2), np.int64)}
    step = env.step(push)
    turn = step.turns["pole"]
    assert turn.terminated.tolist() == [[False, True], [False, False]]
    assert turn.acting.tolist() == [[True, False], [True, True]]
    assert turn.reward.tolist() == [[1, 1], [1, 1]]
    assert step.state[:, -2:].tolist() == [[1, 0], [1, 1]]
    last = turn.observation[0, 1].copy()
    dead = 1
    while not (step := env.step(push)).episodes:
        turn = step.turns["pole"]
        assert not turn.acting[0, 1]
        assert not turn.terminated[0, 1]
        assert turn.reward[0, 1] == 0
        assert np.array_equal(turn.observation[0, 1], last)
        dead += 1
    episode = step.episodes[0]
    assert episode.row == 0 or dead > 5
    assert step.turns["pole"].acting[episode.row].all()
    if episode.row == 0:
        assert episode.returns["pole"].tolist() == [episode.length, 1]


def test_an_agent_earns_its_own_steps_and_no_others() -> None:
    env = MultiCartPole(8, agents=3)
    sampler, step, seen = ActionSampler(env.groups, 8, 1), env.reset(1), 0
    alive_for = np.zeros((8, 3))
    for _ in range(150):
        alive_for += step.turns["pole"].acting
        step = env.step(sampler.sample(step))
        for episode in step.episodes:
            assert episode.returns["pole"].tolist() == alive_for[episode.row].tolist()
            assert episode.length == alive_for[episode.row].max()
            seen += len(set(alive_for[episode.row].tolist())) > 1
            alive_for[episode.row] = 0
    assert seen > 8


def test_standing_poles_are_cut_off_and_fallen_ones_are_not() -> None:
    env = MultiCartPole(1, agents=2, max_steps=3)
    env.reset(0)
    lean(env, 0, 0)
    env.arrays["poles"][3, 0, 0] = 1.0
    turns = [env.step({"pole": np.zeros((1, 2), np.int64)}).turns["pole"] for _ in range(3)]
    assert [turn.terminated.tolist() for turn in turns] == [[[True, False]], [[False, False]], [[False, False]]]
    assert [turn.truncated.tolist() for turn in turns] == [[[False, False]], [[False, False]], [[False, True]]]
    assert turns[-1].final_observation is not None
    assert turns[-1].acting.all()
    assert env.best_return == 3


def test_poles_can_have_a_group_each() -> None:
    env = MultiCartPole(2, agents=3, groups="own")
    assert {name: group.agents for name, group in env.groups.items()} == {f"pole_{i}": (f"pole_{i}",) for i in range(3)}
    env.reset(0)
    lean(env, 0, 2)
    env.arrays["poles"][3, 0, 2] = 1.0
    step = env.step({name: np.zeros((2, 1), np.int64) for name in env.groups})
    assert [bool(turn.terminated[0, 0]) for turn in step.turns.values()] == [False, False, True]
    assert step.state.shape == (2, 15)


# ---------------------------------------------------------------- food on a grid


def meadow(**kwargs: Any) -> Foraging:
    """One copy: players at (0, 1) and (2, 1) around a food at (1, 1) on a grid of 5."""
    env = Foraging(1, players=2, food=1, size=5, **kwargs)
    env.reset(0)
    env.arrays["place"][:] = [[[0, 1], [2, 1]]]
    env.arrays["food"][:] = [[[1, 1]]]
    env.arrays["level"][:] = [[1, 2]]
    env.arrays["food_level"][:] = env.arrays["worth"][:] = 3
    return env


def act(env: Foraging, *actions: int) -> Step:
    return env.step({"player": np.array([actions])})


def test_heavy_food_needs_both_and_is_shared_by_level() -> None:
    env = meadow()
    assert not act(env, 5, 0).turns["player"].reward.any()
    assert not act(env, 0, 5).turns["player"].reward.any()
    step = act(env, 5, 5)
    np.testing.assert_allclose(step.turns["player"].reward, [[1 / 3, 2 / 3]])
    assert step.turns["player"].terminated.all()
    assert sum(step.episodes[0].returns["player"]) == pytest.approx(env.best_return)


def test_light_food_goes_to_who_gathers_it() -> None:
    env = meadow()
    env.arrays["food_level"][:] = env.arrays["worth"][:] = 2
    np.testing.assert_allclose(act(env, 0, 5).turns["player"].reward, [[0, 1]])


def test_a_player_gathers_one_food_at_a_time() -> None:
    env = Foraging(1, players=1, food=2, size=5)
    env.reset(0)
    env.arrays["place"][:] = [[[1, 2]]]
    env.arrays["food"][:] = [[[1, 1], [1, 3]]]
    env.arrays["level"][:] = env.arrays["worth"][:] = 2
    env.arrays["food_level"][:] = 1
    assert [act(env, 5).turns["player"].reward.tolist() for _ in range(2)] == [[[0.5]], [[0.5]]]


def test_food_walls_and_others_stop_a_move() -> None:
    env = meadow()
    act(env, 2, 1)  # both into the food
    assert env.arrays["place"].tolist() == [[[0, 1], [2, 1]]]
    act(env, 1, 0)  # into the wall
    assert env.arrays["place"].tolist() == [[[0, 1], [2, 1]]]
    env.arrays["place"][:] = [[[3, 1], [3, 3]]]
    act(env, 4, 3)  # both into one cell
    assert env.arrays["place"].tolist() == [[[3, 1], [3, 3]]]
    act(env, 4, 0)
    act(env, 4, 2)  # into a cell that is left
    assert env.arrays["place"].tolist() == [[[3, 3], [4, 3]]]
    act(env, 2, 2)  # into one who cannot leave
    assert env.arrays["place"].tolist() == [[[3, 3], [4, 3]]]


def test_players_and_food_never_share_a_cell() -> None:
    env = Foraging(32, players=4, food=4, size=5)
    step, sampler = env.reset(0), ActionSampler(env.groups, 32, 0)
    for _ in range(100):
        step = env.step(sampler.sample(step))
        held = np.where(env.arrays["food_level"][..., None] > 0, env.arrays["food"], [-1, -1])
        for players, food in zip(env.arrays["place"].tolist(), held.tolist(), strict=True):
            cells = [*map(tuple, players), *(tuple(cell) for cell in food if cell[0] >= 0)]
            assert len(set(cells)) == len(cells)


def test_cooperative_food_needs_everyone() -> None:
    env = Foraging(64, players=3, food=2, cooperative=True)
    env.reset(0)
    assert (env.arrays["food_level"] == env.arrays["level"].sum(axis=1, keepdims=True)).all()
    assert len(np.unique(env.arrays["food"][:, 0], axis=0)) > 3


@pytest.mark.parametrize(
    ("env_id", "kwargs", "words"),
    [
        ("shoal/multi-cartpole", {"groups": "two"}, "'one' or 'own'"),
        ("shoal/multi-cartpole", {"agents": 0}, "at least 1"),
        ("shoal/foraging", {"food": 10, "size": 5}, "1 to 4 food"),
    ],
)
def test_wrong_kwargs_of_native_worlds_are_explained(env_id: str, kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_env(EnvConfig(id=env_id, kwargs=kwargs), 2)
