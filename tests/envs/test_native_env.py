"""NativeEnv: the example in its docstring works, and both ways to restart keep the contract."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome
from shoal.testing.env import check_env


def example() -> type[NativeEnv]:
    text = inspect.getdoc(NativeEnv) or ""
    code = textwrap.dedent(text[text.index("    class Guess") : text.index("`autoreset`")])
    names: dict[str, Any] = {"NativeEnv": NativeEnv, "AgentGroup": AgentGroup, "Discrete": Discrete, "np": np}
    exec(code, names)
    return names["Guess"]  # type: ignore[no-any-return]


def test_the_example_of_the_docstring_conforms() -> None:
    checks = check_env(lambda copies: example()(copies, first_slot=3), steps=60)
    assert [check for check in checks if not check.passed] == []


class Staggered(NativeEnv):
    """Two agents of one group end after 2 and 3 steps; the second turns idle rows into nonsense."""

    def __init__(self, num_envs: int, autoreset: Any = "same") -> None:
        super().__init__({"a": AgentGroup(("a_0", "a_1"), Discrete(4), Discrete(2))}, num_envs, autoreset=autoreset)
        self.arrays["alive"] = np.ones((num_envs, 2), bool)

    def begin(self, rows: Array) -> None:
        assert rows.size
        self.arrays["alive"][rows] = True

    def advance(self, actions: ByGroup) -> Outcome:
        alive = self.arrays["alive"]
        fell = alive & (self.time[:, None] >= [2, 3])
        reward = np.where(self.idle[:, None], np.nan, alive * 1.0)
        alive &= ~fell
        over = ~alive.any(axis=1)
        return Outcome({"a": reward}, {"a": fell}, {"a": np.zeros_like(fell)}, over)

    def observe(self) -> ByGroup:
        return {"a": np.repeat(self.time[:, None], 2, axis=1)}

    def acting(self) -> ByGroup:
        return {"a": self.arrays["alive"].copy()}


@pytest.mark.parametrize("autoreset", ["same", "next"])
def test_agents_may_end_one_after_the_other(autoreset: str) -> None:
    checks = check_env(lambda copies: Staggered(copies, autoreset), steps=40)
    assert [check.detail for check in checks if not check.passed and check.name != "copies differ"] == []


def test_idle_calls_are_no_steps_and_pay_nothing() -> None:
    env = Staggered(2, "next")
    env.reset(0)
    steps = [env.step({"a": np.zeros((2, 2), np.int64)}) for _ in range(5)]
    assert [step.advanced for step in steps] == [2, 2, 2, 0, 2]
    assert [float(step.turns["a"].reward.sum()) for step in steps] == [4, 4, 2, 0, 4]
    assert [bool(step.turns["a"].acting.any()) for step in steps] == [True, True, False, True, True]
    assert [episode.returns["a"].tolist() for episode in steps[2].episodes] == [[2.0, 3.0], [2.0, 3.0]]


def test_a_generator_starts_at_its_episode() -> None:
    env = example()(4, first_slot=2)
    env.reset(5)
    one = env.generator(1).random(3)
    assert env.generator(2).random() != one[0]
    assert np.array_equal(env.generator(1).random(3), one)
    env.restore(env.snapshot())
    assert np.array_equal(env.generator(1).random(3), one)


def test_an_unknown_autoreset_is_refused() -> None:
    with pytest.raises(ValueError, match="autoreset is 'same' or 'next', not 'never'"):
        Staggered(1, "never")
