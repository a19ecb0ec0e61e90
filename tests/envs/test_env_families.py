"""Families of environments by id: what is missing is one line, what tuples and text become; with the packages, where they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.listed_agents import ListedAgents
from shoal.envs.text_bits import BITS, bits_of
from shoal.testing.check import require
from shoal.testing.env import check_env

FAMILIES = {
    "mujoco": ["HalfCheetah-v5"],
    "gymnasium_robotics": ["mamujoco/Ant_4x2"],
    "magent2": ["magent2/battle_v4"],
    "lbforaging": ["lbforaging/Foraging-8x8-2p-1f-v3"],
    "rware": ["rware/rware-tiny-2ag-v2"],
    "minigrid": ["minigrid/MiniGrid-Empty-5x5-v0", "minigrid:MiniGrid-GoToDoor-5x5-v0"],
    "pyspiel": ["openspiel/kuhn_poker"],
    "envpool": ["envpool/Pong-v5", "envpool/HalfCheetah-v4"],
    "highway_env": ["highway/highway-fast-v0", "highway/parking-v0"],
    "vizdoom": ["vizdoom/VizdoomBasic-v1"],
    "multi_agent_ale_py": ["atari/pong_v3"],
    "jaxmarl": ["jaxmarl/MPE_simple_spread_v3"],
    "pgx": ["pgx/tic_tac_toe"],
}
"""Package -> ids."""
EXTRAS = {
    "gymnasium_robotics": "mamujoco", "pyspiel": "openspiel", "highway_env": "highway",
    "multi_agent_ale_py": "pettingzoo-atari",
}  # fmt: skip


@pytest.mark.parametrize(("package", "env_id"), [(package, i) for package, ids in FAMILIES.items() for i in ids])
def test_a_family_keeps_the_contract_or_says_what_to_install(
    package: str, env_id: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # some write into the folder that they find themselves in
    if importlib.util.find_spec(package) is not None:
        require(check_env(lambda copies: make_env(EnvConfig(id=env_id), copies), steps=25))
        return
    if env_id.startswith(f"{package}:"):
        pytest.skip("a module of the user's own, for all that is known")
    with pytest.raises(InputError) as error:
        make_env(EnvConfig(id=env_id), 1)
    assert f'needs a package that is not installed: pip install "shoal[{EXTRAS.get(package, package)}]"' in str(
        error.value
    )


class Pair(gymnasium.Env):
    """Two agents in tuples; both earn what the first says, for three steps."""

    observation_space = spaces.Tuple([spaces.Box(0.0, 9.0, (2,), np.float32)] * 2)
    action_space = spaces.Tuple([spaces.Discrete(3)] * 2)

    def __init__(self, *, each: bool = False) -> None:
        self.each = each

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        over = self.time == 3
        flags: Any = [over, over] if self.each else over
        return self.seen(), [float(action[0])] * 2, flags, [False, False] if self.each else False, {"time": self.time}

    def seen(self) -> Any:
        return tuple(
            self.np_random.integers(0, 9, 2).tolist() for _ in range(2)
        )  # lists, as lbforaging has arrays of float64


class Shared(Pair):
    """One reward for all."""

    def step(self, action: Any) -> Any:
        seen, rewards, *rest = super().step(action)
        return seen, rewards[0], *rest


def make_pair(each: bool = False) -> ListedAgents:
    return ListedAgents(Pair(each=each))


@pytest.mark.parametrize("each", [True, False])
def test_tuples_become_agents(each: bool) -> None:
    config = EnvConfig(id="test_env_families:make_pair", kwargs={"each": each})
    require(check_env(lambda copies: make_env(config, copies), steps=20))
    env = make_env(config, 1)
    assert env.groups["agent"].agents == ("agent_0", "agent_1")
    env.reset(0)
    for _ in range(3):
        step = env.step({"agent": np.array([[2, 1]])})
    assert step.turns["agent"].terminated.all()
    assert step.episodes[0].returns["agent"].tolist() == [6.0, 6.0]


def test_tuples_of_a_gymnasium_environment_become_agents_too() -> None:
    config = EnvConfig(id="test_env_families:Shared")
    require(check_env(lambda copies: make_env(config, copies), steps=20))
    env = make_env(config, 1)
    env.reset(0)
    assert env.step({"agent": np.array([[2, 1]])}).turns["agent"].reward.tolist() == [[2.0, 2.0]]


class Sentences(gymnasium.Space[str]):
    """Text in a space of a package's own, as MiniGrid's missions are."""

    def __init__(self) -> None:
        super().__init__((), str)


class Told(gymnasium.Env):
    """Says what to do in words."""

    observation_space = spaces.Dict({"mission": Sentences(), "place": spaces.Discrete(4)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place = 0
        return {"mission": "go to the red door", "place": 0}, {}

    def step(self, action: int) -> Any:
        self.place += 1
        return {"mission": "open it", "place": self.place}, 1.0, self.place == 3, False, {}


def test_text_becomes_bits() -> None:
    require(check_env(lambda copies: make_env(EnvConfig(id="test_env_families:Told"), copies), steps=10))
    env = make_env(EnvConfig(id="test_env_families:Told"), 1)
    seen = env.reset(0).turns["agent"].observation["mission"]
    assert seen.shape == (1, 1, BITS)
    assert (seen[0, 0] == bits_of("Go to the RED door")).all()
    assert 3 <= seen.sum() <= 5
    assert (bits_of("red door") != bits_of("blue door")).any()


def test_joints_that_nobody_shares_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.envs.pettingzoo_games.is_there", lambda package: True)
    with pytest.raises(InputError, match="does not say how joints are shared out: write mamujoco/Ant_4x2"):
        make_env(EnvConfig(id="mamujoco/Ant"), 1)


def test_every_family_is_listed_with_its_extra() -> None:
    import tomllib

    from shoal.envs.factory import family_extras

    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    listed = family_extras()
    assert {"envpool", "highway", "vizdoom", "atari", "jaxmarl", "pgx", "openspiel", "minigrid"} <= set(listed)
    assert set(listed.values()) <= set(extras)
