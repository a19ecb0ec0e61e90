"""Environments of the old Gym API: four-tuples, `done` alone, a method `seed`, spaces of another package."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError, ShoalError
from shoal.envs import make_env
from shoal.envs.old_gym import new_space
from shoal.testing.check import require
from shoal.testing.env import check_env


class Old:
    """Nothing of gymnasium's but the spaces: a walk that ends at 3, or is cut off after 10 steps."""

    observation_space = spaces.Box(-20.0, 20.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.random = np.random.default_rng()

    def seed(self, seed: int) -> list[int]:
        self.random = np.random.default_rng(seed)
        return [seed]

    def reset(self) -> list[float]:
        self.place, self.time = float(self.random.integers(-1, 2)), 0
        return [self.place]

    def step(self, action: int) -> tuple[list[float], float, bool, dict[str, Any]]:
        self.place += 2 * action - 1
        self.time += 1
        cut = self.time == 10 and self.place < 3
        info = {"TimeLimit.truncated": True} if cut else {}
        return [self.place], 1.0, bool(self.place >= 3 or cut), info


class Masked(Old):
    def action_masks(self) -> list[bool]:
        return [True, False]


class HalfOld(gymnasium.Env):
    """Of gymnasium's by name, and old by its methods."""

    observation_space, action_space = Old.observation_space, Old.action_space

    def reset(self) -> np.ndarray:  # type: ignore[override]
        return np.zeros(1, np.float64)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, dict[str, Any]]:  # type: ignore[override]
        return np.zeros(1, np.float64), 1.0, True, {}


class NoSeed(gymnasium.Env):
    """New in all but one thing, which would go unseen."""

    observation_space, action_space = Old.observation_space, Old.action_space

    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(1, np.float32), {}


class Shapeless:
    observation_space = action_space = SimpleNamespace()

    def reset(self) -> None: ...

    def step(self, action: int) -> None: ...


def test_the_contract_is_kept() -> None:
    require(check_env(lambda copies: make_env(EnvConfig(id="test_old_gym:Old"), copies), steps=60))


def test_a_time_limit_is_a_truncation() -> None:
    env = make_env(EnvConfig(id="test_old_gym:Old"), 1)
    env.reset(0)
    for _ in range(10):
        end = env.step({"agent": np.zeros((1, 1), np.int64)}).turns["agent"]
    assert end.truncated.all()
    assert not end.terminated.any()


def test_masks_of_a_method() -> None:
    env = make_env(EnvConfig(id="test_old_gym:Masked"), 1)
    assert env.reset(0).turns["agent"].action_mask.tolist() == [[[True, False]]]  # type: ignore[union-attr]


def test_a_class_of_gymnasiums_with_old_methods() -> None:
    env = make_env(EnvConfig(id="test_old_gym:HalfOld"), 1)
    env.reset(0)
    step = env.step({"agent": np.zeros((1, 1), np.int64)})
    assert step.turns["agent"].terminated.all()
    assert step.episodes[0].returns["agent"].item() == 1.0


def test_a_new_class_whose_reset_takes_no_seed() -> None:
    env = make_env(EnvConfig(id="test_old_gym:NoSeed"), 1)
    with pytest.raises(ShoalError, match="write reset"):
        env.reset(0)


def test_spaces_of_another_package() -> None:
    def named(kind: str, **fields: Any) -> Any:
        return type(kind, (), fields)()

    box = named("Box", low=np.zeros(2, np.float32), high=np.ones(2, np.float32), dtype=np.dtype(np.float32))
    old = named(
        "Dict", spaces={"a": box, "b": named("Tuple", spaces=[named("Discrete", n=3), named("MultiBinary", n=4)])}
    )
    new = spaces.Dict(
        {"a": spaces.Box(0.0, 1.0, (2,), np.float32), "b": spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(4)])}
    )
    assert new_space(old, "x") == new
    assert new_space(named("MultiDiscrete", nvec=[2, 3]), "x") == spaces.MultiDiscrete([2, 3])


def test_spaces_of_no_package() -> None:
    with pytest.raises(InputError, match="there is no space of gymnasium's for"):
        make_env(EnvConfig(id="test_old_gym:Shapeless"), 1)


class UnityStyle:
    """As ML-Agents' own wrapper for Gym does it: an image and a vector in a list, branches of choices, four things per step."""

    def __init__(self) -> None:
        def named(kind: str, **fields: Any) -> Any:
            return type(kind, (), fields)()

        def box(low: float, high: float, shape: tuple[int, ...], dtype: Any) -> Any:
            low_, high_ = np.full(shape, low, dtype), np.full(shape, high, dtype)
            return named("Box", low=low_, high=high_, dtype=np.dtype(dtype))

        self.observation_space = named(
            "Tuple", spaces=[box(0, 255, (4, 4, 3), np.uint8), box(-1.0, 9.0, (2,), np.float32)]
        )
        self.action_space = named("MultiDiscrete", nvec=np.array([3, 2]))
        self.time = 0

    def seed(self, seed: Any = None) -> None:
        """Ignored, as there."""

    def reset(self) -> list[np.ndarray]:
        self.time = 0
        return self.seen()

    def step(self, action: list[int]) -> tuple[list[np.ndarray], float, bool, dict[str, Any]]:
        assert len(action) == 2
        self.time += 1
        return self.seen(), float(action[0]), self.time == 5, {"step": self.time}

    def seen(self) -> list[np.ndarray]:
        return [np.full((4, 4, 3), self.time, np.uint8), np.full(2, self.time, np.float32)]


def test_the_gym_wrapper_of_ml_agents() -> None:
    require(check_env(lambda copies: make_env(EnvConfig(id="test_old_gym:UnityStyle"), copies), steps=20))
    env = make_env(EnvConfig(id="test_old_gym:UnityStyle"), 2)
    image, vector = env.reset(0).turns["agent"].observation
    assert (image.shape, image.dtype, vector.shape) == ((2, 1, 4, 4, 3), np.uint8, (2, 1, 2))
    step = env.step({"agent": np.full((2, 1, 2), 1)})
    assert step.turns["agent"].reward.tolist() == [[1.0], [1.0]]
