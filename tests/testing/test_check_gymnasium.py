"""The conformance suite over gymnasium environments and configured ones: mistakes in a user's code become failed checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.testing.check import Check
from shoal.testing.env import RECORDED, REPEATED, RUNS, check_env, main_check

INSIDE = "observations lie in their spaces"


def failures(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if not check.passed}


# ---------------------------------------------------------------- gymnasium environments that break a promise


class Walk(gymnasium.Env):
    """A sound random walk; subclasses break it."""

    def __init__(self) -> None:
        self.observation_space = Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self._see(), 1.0, self.time == 9, False, {}

    def _see(self) -> Any:
        return self.np_random.random(2).astype(np.float32)


class Outside(Walk):
    def _see(self) -> Any:
        return super()._see() + np.float32(11 * (self.time == 3))


class Unseeded(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=None)


class Raising(Walk):
    def step(self, action: Any) -> Any:
        if self.time == 4:
            return {}["missing"]
        return super().step(action)


class NoSeed(Walk):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class NotANumber(Walk):
    def step(self, action: Any) -> Any:
        seen, _, terminated, truncated, info = super().step(action)
        return seen, float("nan"), terminated, truncated, info


class Floating(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(0, 255, (2,), np.uint8)


class Unbuildable(Walk):
    def __init__(self) -> None:
        raise RuntimeError("no licence")


def checked(kind: type[Walk], steps: int = 25) -> dict[str, str]:
    return failures(check_env(lambda copies: GymnasiumLoop([kind() for _ in range(copies)], "Walk"), steps=steps))


@pytest.mark.parametrize(
    ("kind", "broken", "text"),
    [
        (Outside, INSIDE, "outside Box"),
        (Unseeded, "equal seeds reproduce everything", "super().reset(seed=seed)"),
        (Raising, RUNS, "after 4 steps: ShoalError: Walk, copy 0: KeyError: 'missing'"),
        (NoSeed, RUNS, "unexpected keyword argument 'seed'"),
        (NotANumber, "rewards are finite", "nan"),
        (Floating, RUNS, "dtype float32 where the space says (2,) and uint8"),
        (Unbuildable, RUNS, "RuntimeError: no licence"),
    ],
)
def test_a_broken_gymnasium_world_fails_the_right_check(kind: type[Walk], broken: str, text: str) -> None:
    found = checked(kind)
    assert set(found) == {broken}
    assert text in found[broken]


def test_a_sound_gymnasium_world_passes() -> None:
    assert checked(Walk) == {}


def test_an_exception_is_shown_with_its_place() -> None:
    detail = checked(Raising)[RUNS]
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if '{}["missing"]' in text)
    assert f"{__file__}:{line} in step" in detail


def test_what_was_seen_before_an_exception_is_still_checked() -> None:
    class Both(Raising, Outside):
        pass

    assert set(checked(Both)) == {RUNS, INSIDE}


# ---------------------------------------------------------------- settings


def test_settings_are_checked_in_every_form() -> None:
    checks = main_check(EnvConfig(id="CartPole-v1", kwargs={"max_episode_steps": 30}))
    assert failures(checks) == {}
    names = [RUNS, *(function.__name__.replace("_", " ") for function in (*RECORDED, *REPEATED))]
    assert [check.name for check in checks] == [f"{form}: {name}" for form in ("loop", "native") for name in names]
    pictures = [check.detail for check in checks if check.name.endswith("images are rgb or none")]
    assert pictures == ["", ""]


def test_a_chosen_form_is_checked_alone() -> None:
    checks = main_check(EnvConfig(id="CartPole-v1", vector="native"))
    assert all(check.name.startswith("native: ") for check in checks)


def test_a_users_file_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "world.py"
    file.write_text(
        "import gymnasium\n"
        "class World(gymnasium.Env):\n"
        "    observation_space = action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        return 5, 0.0, False, False, {}\n"
    )
    found = failures(main_check(EnvConfig(id=f"{file}:World")))
    assert list(found) == [f"loop: {INSIDE}"]
    assert "holds 5, outside Discrete(2)" in found[f"loop: {INSIDE}"]


def test_bad_settings_stay_input_errors() -> None:
    with pytest.raises(InputError, match="CartPole-v1"):
        main_check(EnvConfig(id="CartPol-v1"))
    found = failures(main_check(EnvConfig(id="Acrobot-v1", kwargs={"lenght": 1})))
    assert "env.kwargs" in found[f"loop: {RUNS}"]
