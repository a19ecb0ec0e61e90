"""Environments that show less of themselves."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.envs.partial import HideVelocity
from shoal.testing.env import check_env


def test_cartpole_without_velocities_shows_position_and_angle() -> None:
    plain, hidden = gymnasium.make("CartPole-v1"), HideVelocity(gymnasium.make("CartPole-v1"))
    seen, partly = plain.reset(seed=1)[0], hidden.reset(seed=1)[0]
    assert partly.tolist() == seen[[0, 2]].tolist()
    assert hidden.observation_space.contains(partly)
    assert hidden.observation_space.high.tolist() == plain.observation_space.high[[0, 2]].tolist()


def test_any_entries_can_be_kept() -> None:
    hidden = HideVelocity(gymnasium.make("Pendulum-v1"), keep=(0, 1))
    assert hidden.reset(seed=1)[0].shape == (2,)


@pytest.mark.parametrize("world", ["FrozenLake-v1"])
def test_what_is_no_vector_is_refused(world: str) -> None:
    with pytest.raises(TypeError, match="HideVelocity keeps entries"):
        HideVelocity(gymnasium.make(world))


def test_it_conforms_as_a_configured_wrapper() -> None:
    config = EnvConfig(id="CartPole-v1", wrappers=["shoal.envs.partial:HideVelocity"])
    checks = check_env(lambda copies: make_env(config, copies), steps=40)
    assert [check for check in checks if not check.passed] == []
    step = make_env(config, 2).reset(0)
    assert step.turns["agent"].observation.shape == (2, 1, 2)
    assert step.turns["agent"].observation.dtype == np.float32
