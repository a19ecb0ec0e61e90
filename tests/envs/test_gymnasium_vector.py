"""Gymnasium's own vector environments: both autoreset habits, masks, metrics, faults."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from sample_worlds import Counting, Drawing, Hinting

from shoal.api.env import Step
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError, ShoalError
from shoal.base.seeding import derive_seed
from shoal.envs import make_env
from shoal.envs.gymnasium_vector import GymnasiumVector
from shoal.testing.env import check_env

ACTION = {"agent": np.zeros((2, 1), np.int64)}
MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]


def vector(worlds: list[gymnasium.Env], mode: AutoresetMode, first_slot: int = 0) -> GymnasiumVector:
    batch = SyncVectorEnv([lambda world=world: world for world in worlds], autoreset_mode=mode)
    return GymnasiumVector(batch, "World", first_slot=first_slot)


def turn(step: Step) -> Any:
    return step.turns["agent"]


# ---------------------------------------------------------------- conformance


def test_the_native_cartpole_conforms() -> None:
    config = EnvConfig(id="CartPole-v1", vector="native", kwargs={"max_episode_steps": 12})
    checks = check_env(lambda copies: make_env(config, copies), steps=80)
    assert [check for check in checks if not check.passed] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("world", ["CartPole-v1", "Pendulum-v1", "Taxi-v4"])
def test_wrapped_vector_worlds_conform(world: str, mode: AutoresetMode) -> None:
    def make(copies: int) -> GymnasiumVector:
        return vector([gymnasium.make(world, max_episode_steps=12) for _ in range(copies)], mode)

    checks = check_env(make, steps=50)
    assert [check for check in checks if not check.passed] == []
    assert not any("no episode ended" in check.detail for check in checks)


@pytest.mark.parametrize("mode", MODES)
def test_trees_conform(mode: AutoresetMode) -> None:
    space = Dict(
        eye=Box(0, 255, (3, 3), np.uint8), body=Dict(speed=Box(-1, 1, (2,), np.float64), gear=Discrete(4, start=1))
    )
    checks = check_env(lambda copies: vector([Drawing(space) for _ in range(copies)], mode), steps=30)
    assert [check for check in checks if not check.passed] == []


# ---------------------------------------------------------------- ends


def test_next_step_autoreset_idles_once() -> None:
    env = vector([Counting(length=2), Counting(length=100)], AutoresetMode.NEXT_STEP)
    env.reset(0)
    env.step(ACTION)
    end = env.step(ACTION)
    assert turn(end).observation[:, 0, 0].tolist() == [2, 2]
    assert turn(end).terminated[:, 0].tolist() == [True, False]
    assert turn(end).acting[:, 0].tolist() == [False, True]
    assert turn(end).final_observation is None
    assert [(e.row, e.length, e.returns["agent"].tolist(), e.metrics) for e in end.episodes] == [
        (0, 2, [3.0], {"doubled": 4.0})
    ]
    idle = env.step(ACTION)
    assert turn(idle).observation[:, 0, 0].tolist() == [0, 3]
    assert turn(idle).reward[:, 0].tolist() == [0, 3]
    assert turn(idle).acting.all()
    assert not turn(idle).terminated.any()
    assert [idle.advanced, end.advanced] == [1, 2]
    assert env.step(ACTION).advanced == 2


def test_same_step_autoreset_shows_both_observations() -> None:
    env = vector([Counting(length=2), Counting(length=100)], AutoresetMode.SAME_STEP)
    env.reset(0)
    assert turn(env.step(ACTION)).final_observation is None
    end = env.step(ACTION)
    assert turn(end).observation[:, 0, 0].tolist() == [0, 2]
    assert turn(end).final_observation[0, 0].tolist() == [2, 2]
    assert turn(end).acting.all()
    assert [(e.row, e.length, e.returns["agent"].tolist(), e.metrics) for e in end.episodes] == [
        (0, 2, [3.0], {"doubled": 4.0})
    ]
    assert env.step(ACTION).advanced == 2


def test_both_habits_and_the_loop_tell_the_same_episodes() -> None:
    from shoal.envs.gymnasium_loop import GymnasiumLoop

    def episodes(env: Any) -> list[Any]:
        env.reset(0)
        return [(e.row, e.length, e.returns["agent"].tolist()) for _ in range(9) for e in env.step(ACTION).episodes]

    def worlds() -> list[gymnasium.Env]:
        return [Counting(length=3), Counting(limit=100)]

    same = episodes(vector(worlds(), AutoresetMode.SAME_STEP))
    assert same == episodes(GymnasiumLoop(worlds(), "World"))
    assert episodes(vector(worlds(), AutoresetMode.NEXT_STEP)) == same[:4]


class Batched(VectorEnv):
    """Steps copies with numpy and gives `final_obs` as one array: the form of environments batched from the ground up."""

    def __init__(self, num_envs: int = 2, mode: Any = AutoresetMode.SAME_STEP, final: bool = True) -> None:
        self.num_envs, self._final = num_envs, final
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = Box(0.0, 9.0, (1,)), Discrete(2)
        self.reset_seed: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.reset_seed = seed
        self._time = np.arange(self.num_envs)
        return self._time[:, None].astype(np.float32), {}

    def step(self, actions: Any) -> Any:
        self._time = self._time + 1
        seen, ended = self._time[:, None].astype(np.float32), self._time == 3
        self._time[ended] = 0
        info = {"final_obs": seen} if self._final and ended.any() else {}
        return (
            self._time[:, None].astype(np.float32),
            np.ones(self.num_envs),
            ended,
            np.zeros(self.num_envs, bool),
            info,
        )


def test_final_observations_may_come_as_one_array() -> None:
    env = GymnasiumVector(Batched(), "World")
    env.reset(0)
    env.step(ACTION)
    step = env.step(ACTION)
    assert turn(step).terminated[:, 0].tolist() == [False, True]
    assert turn(step).final_observation[1, 0].tolist() == [3]
    assert turn(step).observation[:, 0, 0].tolist() == [2, 0]


def test_a_lost_final_observation_is_an_error() -> None:
    env = GymnasiumVector(Batched(final=False), "World", first_slot=4)
    env.reset(0)
    env.step(ACTION)
    with pytest.raises(ShoalError, match=r"World, copies 4 to 5: .*final_obs"):
        env.step(ACTION)


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, None])
def test_a_world_that_does_not_reset_itself_is_refused(mode: Any) -> None:
    with pytest.raises(InputError, match=r"env.id = 'World'.*autoreset_mode = (Disabled|None).*env.vector=loop"):
        GymnasiumVector(Batched(mode=mode), "World")


def test_the_seed_follows_from_the_first_slot() -> None:
    batch = Batched()
    GymnasiumVector(batch, "World", first_slot=8).reset(5)
    assert batch.reset_seed == derive_seed(5, "episode", 8, 0)


# ---------------------------------------------------------------- actions and masks


def test_the_entries_of_idle_copies_are_ignored() -> None:
    env = make_env(EnvConfig(id="CartPole-v1", vector="native", kwargs={"max_episode_steps": 3}), 2)
    step = env.reset(0)
    for _ in range(12):
        step = env.step({"agent": np.where(turn(step).acting, 1, -7)})
    assert np.isfinite(turn(step).observation).all()


def test_actions_arrive_in_the_space_of_the_world() -> None:
    worlds: list[Any] = [Counting(action_space=Discrete(3, start=5)) for _ in range(2)]
    env = vector(worlds, AutoresetMode.SAME_STEP)
    env.reset(0)
    env.step({"agent": np.array([[0], [2]])})
    assert [world.actions[0] for world in worlds] == [5, 7]
    assert env.groups["agent"].action_space == Discrete(3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "masks", [[[1, 0, 0, 1, 1]] * 3, [([1, 0], [0, 1, 1])] * 3, [np.array([1, 0, 0, 1, 1], np.int8)] * 3]
)
def test_masks_are_read_by_copy(mode: AutoresetMode, masks: list[Any]) -> None:
    env = vector([Hinting(masks, MultiDiscrete([2, 3])), Hinting([None] * 3, MultiDiscrete([2, 3]))], mode)
    expected = [[True, False, False, True, True], [True] * 5]
    assert turn(env.reset(0)).action_mask[:, 0].tolist() == expected
    for _ in range(4):
        step = env.step({"agent": np.zeros((2, 1, 2), np.int64)})
        assert turn(step).action_mask[:, 0].tolist() == expected


def test_a_mask_that_comes_late_is_refused() -> None:
    env = vector([Hinting([None, [1, 0], None], Discrete(2))], AutoresetMode.SAME_STEP)
    env.reset(0)
    with pytest.raises(ShoalError, match=r"with step\(\) but not with reset\(\)"):
        env.step({"agent": np.zeros((1, 1), np.int64)})


# ---------------------------------------------------------------- faults and the rest


class Failing(Batched):
    """Raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def step(self, actions: Any) -> Any:
        raise self._error


def test_faults_name_the_world_and_the_copies() -> None:
    env = GymnasiumVector(Failing(KeyError("lost")), "World", first_slot=4)
    env.reset(0)
    with pytest.raises(ShoalError, match="World, copies 4 to 5: KeyError: 'lost'") as caught:
        env.step(ACTION)
    assert isinstance(caught.value.__cause__, KeyError)


def test_observations_of_another_shape_are_refused() -> None:
    batch = Batched()
    batch.single_observation_space = Box(0.0, 9.0, (2,))
    with pytest.raises(ShoalError, match=r"shape \(2, 1\) where 2 copies"):
        GymnasiumVector(batch, "World").reset(0)


def test_render_draws_one_copy() -> None:
    env = make_env(EnvConfig(id="CartPole-v1", vector="native"), 2, render=True)
    env.reset(0)
    picture = env.render(1)
    assert picture is not None
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    env.close()
    assert make_env(EnvConfig(id="CartPole-v1", vector="native"), 2).render(0) is None
