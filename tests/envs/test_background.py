"""An Env that steps in a thread of its own: the same steps, and nobody waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Array, Env, Step
from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.envs.background import BackgroundEnv
from shoal.rollout.rollout import Progress, Rollout
from tests.launchers.processes import wait_for


class Gated(Env):
    """Steps only while its gate is open."""

    def __init__(self, env: Env) -> None:
        self.groups, self.num_envs, self._env = env.groups, env.num_envs, env
        self.gate, self.fails, self.closed = threading.Event(), False, False

    def reset(self, seed: int) -> Step:
        return self._env.reset(seed)

    def send(self, actions: dict[str, Array]) -> None:
        assert self.gate.wait(30)
        if self.fails:
            raise ZeroDivisionError("in the thread")
        self._env.send(actions)

    def recv(self, timeout: float) -> Step:
        return self._env.recv(timeout)

    def close(self) -> None:
        self.closed = True
        self._env.close()


@pytest.fixture
def world() -> Iterator[tuple[BackgroundEnv, Gated, threading.Event]]:
    rung = threading.Event()
    inner = Gated(make_env(EnvConfig(id="CartPole-v1"), 2))
    env = BackgroundEnv(inner, done=rung.set)
    yield env, inner, rung
    inner.gate.set()
    env.close()


ACTIONS = {"agent": np.ones((2, 1), np.int64)}


def test_send_returns_at_once_and_rings_when_the_step_is_done(world: tuple[BackgroundEnv, Gated, Any]) -> None:
    env, inner, rung = world
    env.reset(0)
    assert not env.ready()
    env.send(ACTIONS)
    assert not env.ready()
    assert not rung.is_set()
    inner.gate.set()
    assert rung.wait(30)
    assert env.ready()
    assert env.recv(1.0).advanced == 2
    assert not env.ready()


def test_the_steps_are_those_of_the_env_inside(world: tuple[BackgroundEnv, Gated, Any]) -> None:
    env, inner, _ = world
    inner.gate.set()
    plain = make_env(EnvConfig(id="CartPole-v1"), 2)
    for one, two in [(env.reset(3), plain.reset(3)), *((env.step(ACTIONS), plain.step(ACTIONS)) for _ in range(30))]:
        np.testing.assert_array_equal(one.turns["agent"].observation, two.turns["agent"].observation)
        np.testing.assert_array_equal(one.turns["agent"].terminated, two.turns["agent"].terminated)
    plain.close()


def test_it_states_returns_as_the_env_inside() -> None:
    inside = make_env(EnvConfig(id="shoal/two-step"), 1)
    env = BackgroundEnv(inside, done=lambda: None)
    assert env.game_return == inside.game_return == "mean"
    env.close()


def test_what_the_world_raises_comes_out_of_recv(world: tuple[BackgroundEnv, Gated, Any]) -> None:
    env, inner, rung = world
    inner.fails = True
    inner.gate.set()
    env.reset(0)
    env.send(ACTIONS)
    assert rung.wait(30)
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        env.recv(1.0)


def test_recv_has_a_timeout(world: tuple[BackgroundEnv, Gated, Any]) -> None:
    env, _, _ = world
    env.reset(0)
    env.send(ACTIONS)
    with pytest.raises(TimeoutError):
        env.recv(0.01)


def test_close_waits_for_the_step_and_closes_the_world(world: tuple[BackgroundEnv, Gated, Any]) -> None:
    env, inner, _ = world
    env.reset(0)
    env.send(ACTIONS)
    inner.gate.set()
    env.close()
    assert inner.closed


def test_a_rollout_gives_up_on_a_world_that_hangs(world: tuple[BackgroundEnv, Gated, Any]) -> None:
    env, _, rung = world
    rollout = Rollout(env, [], seed=0, timeout=0.2)
    assert rollout.advance(Progress()) == "env"
    with pytest.raises(TimeoutError, match=r"a step took longer than env\.timeout = 0\.2 s"):
        wait_for(lambda: rollout.advance(Progress()) != "env", 30)
    assert not rung.is_set()
