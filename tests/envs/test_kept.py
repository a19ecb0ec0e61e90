"""Environments that outlive their workers: they go on as they were left, without playing anything again."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from shoal.api.env import Env, Step
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.envs.kept import EnvShelf


class Counted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Says how often anybody has stepped, in all copies together."""

    steps = 0

    def step(self, action: Any) -> Any:
        Counted.steps += 1
        return super().step(action)


def copies() -> Env:
    return GymnasiumLoop([Counted(gymnasium.make("CartPole-v1")) for _ in range(3)], "CartPole-v1")


def play(env: Env, first: int, last: int) -> list[Step]:
    """Steps of known actions; what was seen, as copies."""
    seen = []
    for t in range(first, last):
        step = env.step({"agent": np.full((3, 1), t // 3 % 2)})
        turn = step.turns["agent"]
        seen.append((np.copy(turn.observation), np.copy(turn.reward), np.copy(turn.terminated)))
    return seen  # type: ignore[return-value]


def whole(last: int) -> Any:
    env = copies()
    env.reset(7)
    return play(env, 0, last)


def same(one: Any, two: Any) -> None:
    for mine, other in zip(one, two, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_it_goes_on_as_it_was_left() -> None:
    shelf = EnvShelf()
    env = shelf.open(0, copies, goes_on=False)
    env.reset(7)
    play(env, 0, 30)
    tree = env.snapshot()
    env.close()
    Counted.steps = 0
    again = shelf.open(0, copies, goes_on=True)
    again.reset(8)
    again.restore(tree)
    assert Counted.steps == 0, "nothing was played again"
    same(play(again, 30, 60), whole(60)[30:])


def test_another_state_is_restored_by_playing_it_again() -> None:
    shelf = EnvShelf()
    env = shelf.open(0, copies, goes_on=False)
    env.reset(7)
    play(env, 0, 31)
    tree = env.snapshot()
    play(env, 31, 35)  # further than the checkpoint, as after a death
    env.close()
    again = shelf.open(0, copies, goes_on=True)
    again.reset(8)
    Counted.steps = 0
    again.restore(tree)
    assert Counted.steps > 0
    same(play(again, 31, 60), whole(60)[31:])


@pytest.mark.parametrize("how", ["begins anew", "another rollout", "closed shelf"])
def test_otherwise_there_are_new_ones(how: str) -> None:
    shelf = EnvShelf()
    env = shelf.open(0, copies, goes_on=False)
    env.reset(3)
    play(env, 0, 30)
    env.close()
    if how == "closed shelf":
        shelf.close()
    other = shelf.open(1 if how == "another rollout" else 0, copies, goes_on=how != "begins anew")
    other.reset(7)
    same(play(other, 0, 30), whole(30))


def test_who_is_not_worth_keeping_is_closed() -> None:
    closed = []

    class Cheap(GymnasiumLoop):
        relives = False

        def close(self) -> None:
            closed.append(True)
            super().close()

    shelf = EnvShelf()
    env = shelf.open(0, lambda: Cheap([gymnasium.make("CartPole-v1")], "CartPole-v1"), goes_on=False)
    env.reset(7)
    env.close()
    assert closed == [True]
    shelf.close()
    assert closed == [True]
