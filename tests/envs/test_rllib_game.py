"""Environments written for RLlib: who acts, who ends, where agents and spaces are found. RLlib itself is not needed."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError, ShoalError
from shoal.envs import make_env
from shoal.testing.check import require
from shoal.testing.env import check_env

MultiAgentEnv = type("MultiAgentEnv", (gymnasium.Env,), {"__module__": "ray.rllib.env.multi_agent_env"})
SEEN, ACTS = spaces.Box(-1.0, 20.0, (2,), np.float32), spaces.Discrete(3)


class Relay(MultiAgentEnv):  # type: ignore[misc, valid-type]
    """`runner` and `keeper` take turns; the keeper leaves after its third turn, and time is up after twelve steps."""

    def __init__(self, limit: int = 12) -> None:
        self.possible_agents = ["runner", "keeper"]
        self.observation_spaces = {"runner": SEEN, "keeper": SEEN}
        self.action_spaces = {"runner": ACTS, "keeper": spaces.Discrete(2)}
        self.limit = limit

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.kept = 0, 0
        return {"runner": self.seen()}, {}

    def step(self, actions: dict[str, int]) -> Any:
        (agent,) = actions
        self.time += 1
        self.kept += agent == "keeper"
        left = self.kept == 3
        terminated = {"keeper": left and agent == "keeper", "__all__": False}
        truncated = {"__all__": self.time >= self.limit}
        following = "runner" if agent == "keeper" or left else "keeper"
        return {following: self.seen()}, {agent: float(actions[agent])}, terminated, truncated, {}

    def seen(self) -> np.ndarray:
        return np.array([self.time, self.np_random.uniform()], np.float32)


class Sparse(MultiAgentEnv):  # type: ignore[misc, valid-type]
    """Spaces in one Dict, as older versions had them; in every second step nobody has an observation."""

    observation_space = spaces.Dict({0: SEEN, 1: SEEN})
    action_space = spaces.Dict({0: ACTS, 1: ACTS})

    def __init__(self, mute: bool = False) -> None:
        self.mute = mute

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.both(), {}

    def step(self, actions: dict[int, int]) -> Any:
        self.time += 1
        over = self.time == 6
        quiet = self.mute or self.time % 2 == 1
        flags = {"__all__": over and not self.mute}
        return {} if quiet else self.both(), {0: 1.0, 1: 2.0}, flags, {"__all__": False}, {}

    def both(self) -> dict[int, np.ndarray]:
        return {agent: np.full(2, self.time, np.float32) for agent in (0, 1)}


class Nobody(MultiAgentEnv):  # type: ignore[misc, valid-type]
    """Has not said who plays."""


def made(name: str, copies: int = 1, **kwargs: Any) -> Any:
    return make_env(EnvConfig(id=f"test_rllib_game:{name}", kwargs=kwargs), copies)


@pytest.mark.parametrize("name", ["Relay", "Sparse"])
def test_the_contract_is_kept(name: str) -> None:
    require(check_env(lambda copies: made(name, copies), steps=40))


def test_whoever_has_an_observation_acts() -> None:
    env = made("Relay")
    assert {name: group.agents for name, group in env.groups.items()} == {"runner": ("runner",), "keeper": ("keeper",)}
    step = env.reset(0)
    acts = []
    for _ in range(12):
        acts.append([name for name in env.groups if step.turns[name].acting.all()])
        step = env.step({"runner": np.full((1, 1), 2), "keeper": np.full((1, 1), 1)})
        if len(acts) == 6:
            assert step.turns["keeper"].terminated.all()
            assert not step.turns["runner"].terminated.any()
    assert acts == [["runner"], ["keeper"]] * 3 + [["runner"]] * 6
    assert step.turns["runner"].truncated.all()
    assert not step.turns["keeper"].truncated.any(), "who has left does not end twice"
    (episode,) = step.episodes
    assert (episode.length, episode.returns["runner"].item(), episode.returns["keeper"].item()) == (12, 18.0, 3.0)


def test_steps_without_anybody_are_passed_over() -> None:
    env = made("Sparse")
    env.reset(0)
    step = env.step({"agents": np.zeros((1, 2), np.int64)})
    assert step.turns["agents"].reward.tolist() == [[2.0, 4.0]], "rewards of both steps"
    assert env.step({"agents": np.zeros((1, 2), np.int64)}).turns["agents"].acting.all()
    assert env.step({"agents": np.zeros((1, 2), np.int64)}).turns["agents"].terminated.all()


def test_silence_without_end_is_an_error() -> None:
    env = made("Sparse", mute=True)
    env.reset(0)
    with pytest.raises(ShoalError, match="nobody has had an observation for 1000 steps"):
        env.step({"agents": np.zeros((1, 2), np.int64)})


def test_who_plays_must_be_said() -> None:
    with pytest.raises(InputError, match="has no possible_agents: list everybody who may play"):
        made("Nobody")


class Said(Relay):
    """Not made by any other test."""


def test_it_is_said_aloud_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "shoal"):
        made("Said", 3)
    assert caplog.text.count("is an environment of RLlib: whoever has an observation acts") == 1
