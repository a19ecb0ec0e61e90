"""Environments, models, opponents and algorithms of users that are broken, one mistake each: what `test_broken_parts` names."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from pettingzoo import ParallelEnv
from torch import Tensor, nn

from shoal.algorithms.actor_critic.ppo import PPO
from shoal.api.algorithm import Algorithm
from shoal.api.env import AgentGroup, Env
from shoal.api.policy import Model
from shoal.base.config import Config

ZERO = np.zeros(2, np.float32)


# ---------------------------------------------------------------- environments


class Sound(gymnasium.Env[Any, Any]):
    """Nothing is wrong with it."""

    observation_space: Any = Box(-1, 1, (2,))
    action_space: Any = Discrete(2)
    seen: Any = ZERO
    earned: Any = 0.0
    told: dict[str, Any] = {}
    told_first: dict[str, Any] | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.count = 0
        return self.seen, dict(self.told if self.told_first is None else self.told_first)

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.seen, self.earned, self.count % 5 == 0, False, dict(self.told)


class NoSpaces(gymnasium.Env[Any, Any]):
    reset, step = Sound.reset, Sound.step


class NoActionSpace(NoSpaces):
    observation_space = Sound.observation_space


class NoneForASpace(Sound):
    observation_space = None


class TextSpace(Sound):
    observation_space = spaces.Text(5)


class TupleActions(Sound):
    action_space = spaces.Tuple([Discrete(2), Discrete(2)])


class RaisingConstructor(Sound):
    def __init__(self) -> None:
        raise ValueError("no\nlicence")


class NeedsArguments(Sound):
    def __init__(self, level: int) -> None: ...


class OldReset(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset()[0]


class NoSeed(Sound):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class RaisingReset(Sound):
    def reset(self, **_: Any) -> Any:
        raise RuntimeError("the simulator is away")


class OldStep(Sound):
    def step(self, action: Any) -> Any:
        return self.seen, 0.0, False, {}


class RaisingStep(Sound):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("at once")


class RaisingLater(Sound):
    def step(self, action: Any) -> Any:
        if self.count == 3:
            raise ZeroDivisionError("later")
        return super().step(action)


class WrongShape(Sound):
    seen = np.zeros(3, np.float32)


class WrongKind(Sound):
    seen = np.array(["a", "b"])


class NothingSeen(Sound):
    seen = None


class MissingPart(Sound):
    observation_space = Dict({"a": Box(-1, 1, (2,)), "b": Box(-1, 1, (2,))})
    seen = {"a": ZERO}


class WordReward(Sound):
    earned = "much"


class NoReward(Sound):
    earned = None


class TwoRewards(Sound):
    earned = np.ones(2)


class NaNReward(Sound):
    earned = float("nan")


class NaNObservation(Sound):
    seen = np.full(2, np.nan, np.float32)


class WordMetrics(Sound):
    told = {"metrics": {"score": "good"}}


class ForbidsAll(Sound):
    told = {"action_mask": np.zeros(2, bool)}


class ForbidsAllLater(ForbidsAll):
    told_first = {"action_mask": np.ones(2, bool)}


class ForbidsAPart(Sound):
    action_space = MultiDiscrete([2, 3])
    told = {"action_mask": np.array([1, 1, 0, 0, 0], bool)}


class WideMask(Sound):
    told = {"action_mask": np.ones(3, bool)}


class LateMask(Sound):
    told, told_first = {"action_mask": np.ones(2, bool)}, {}


class MaskOfABox(Sound):
    action_space = Box(-1, 1, (2,))
    told = {"action_mask": np.ones(2, bool)}


class SeenMaskOfABox(Sound):
    action_space = Box(-1, 1, (2,))
    observation_space = Dict({"observation": Box(-1, 1, (2,)), "action_mask": Box(0, 1, (2,), np.int8)})
    seen = {"observation": ZERO, "action_mask": np.ones(2, np.int8)}


class SeenWideMask(Sound):
    observation_space = Dict({"observation": Box(-1, 1, (2,)), "action_mask": Box(0, 1, (3,), np.int8)})
    seen = {"observation": ZERO, "action_mask": np.ones(3, np.int8)}


class SeenForbidsAll(Sound):
    observation_space = Dict({"observation": Box(-1, 1, (2,)), "action_mask": Box(0, 1, (2,), np.int8)})
    seen = {"observation": ZERO, "action_mask": np.zeros(2, np.int8)}


class OnlyAMask(Sound):
    observation_space = Dict({"action_mask": Box(0, 1, (2,), np.int8)})
    seen = {"action_mask": np.ones(2, np.int8)}


class RaisingMethod(Sound):
    def action_masks(self) -> Any:
        raise KeyError("no masks today")


class MethodForbidsAll(Sound):
    def action_masks(self) -> Any:
        return np.zeros(2, bool)


def nothing() -> None:
    """Makes no environment."""


def word() -> str:
    """Makes something else."""
    return "CartPole-v1"


five = 5


class NoGroups(Env):
    """A batch of its own that does not say who plays."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def reset(self, seed: int) -> Any:
        return None

    def send(self, actions: Any) -> None: ...

    def recv(self, timeout: float) -> Any: ...


class NoFirstStep(NoGroups):
    """Its reset forgets to return."""

    groups = {"agent": AgentGroup(("agent",), Box(-1, 1, (2,)), Discrete(2))}


class NoAgents(ParallelEnv[str, Any, Any]):
    """A game of nobody."""

    metadata: dict[str, Any] = {}
    possible_agents: list[str] = []

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return {}, {}

    def step(self, actions: Any) -> Any:
        return {}, {}, {}, {}, {}

    def observation_space(self, agent: str) -> Any:
        raise NotImplementedError

    def action_space(self, agent: str) -> Any:
        raise NotImplementedError


class NoSpacesOfAgents(NoAgents):
    possible_agents = ["a", "b"]


# ---------------------------------------------------------------- models


class SoundModel(Model):
    """Nothing is wrong with it."""

    class Config(Config):
        """It has no settings."""

    def __init__(self, space: Any, config: Any) -> None:
        super().__init__(space, config)
        self.features = 4
        self.layer = nn.Linear(4, 4)

    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        return torch.tanh(self.layer(observation)), state


class RaisingModel(SoundModel):
    def __init__(self, space: Any, config: Any) -> None:
        raise ValueError("no\nweights")


class NoSuper(Model):
    def __init__(self, space: Any, config: Any) -> None:
        self.layer = nn.Linear(4, 4)


class OneArgument(SoundModel):
    def __init__(self, space: Any) -> None:
        super().__init__(space, None)


class NoForward(Model):
    features = 4


class NoFeatures(Model):
    forward = SoundModel.forward


class WordFeatures(SoundModel):
    def __init__(self, space: Any, config: Any) -> None:
        super().__init__(space, config)
        self.features = "four"  # type: ignore[assignment]


class WrongFeatures(SoundModel):
    def __init__(self, space: Any, config: Any) -> None:
        super().__init__(space, config)
        self.features = 7


class NoState(SoundModel):
    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        return self.layer(observation)


class ForgetsState(SoundModel):
    def initial_state(self, batch: int) -> Any:
        return torch.zeros(batch, 3)

    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        return self.layer(observation), None


class OtherState(ForgetsState):
    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        return self.layer(observation), state[:, :2]


class WordState(SoundModel):
    def initial_state(self, batch: int) -> Any:
        return "empty"


class FlatFeatures(SoundModel):
    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        return self.layer(observation).flatten(0, 1), state


class NumpyFeatures(SoundModel):
    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        return np.zeros((*first.shape, 4)), state


class Normed(SoundModel):
    def __init__(self, space: Any, config: Any) -> None:
        super().__init__(space, config)
        self.norm = nn.BatchNorm1d(4)


class Lazy(SoundModel):
    def __init__(self, space: Any, config: Any) -> None:
        super().__init__(space, config)
        self.layer = nn.LazyLinear(4)


class RaisingForward(SoundModel):
    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        raise ValueError("my\nmistake")


class RaisingAtWork(SoundModel):
    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        if observation.any():
            raise ValueError("my\nmistake")
        return super().forward(observation, state, first)


class NaNForward(SoundModel):
    def forward(self, observation: Any, state: Any, first: Tensor) -> Any:
        return self.layer(observation) / 0 * 0, state


class NoModel:
    """Inherits nothing."""


class WordConfig(SoundModel):
    Config = "none"  # type: ignore[assignment]


# ---------------------------------------------------------------- opponents


def sound(observation: Any, mask: Any, noise: Any) -> Any:
    """Nothing is wrong with it."""
    return np.zeros(len(noise), np.int64)


def raises(observation: Any, mask: Any, noise: Any) -> Any:
    raise RuntimeError("lost\nthe thread")


def raises_later(observation: Any, mask: Any, noise: Any) -> Any:
    if len(noise) > 2 and np.abs(observation).max() > 0.06:
        raise RuntimeError("lost the thread")
    return sound(observation, mask, noise)


def one_argument(observation: Any) -> Any:
    return np.zeros(len(observation), np.int64)


def seven(observation: Any, mask: Any, noise: Any) -> Any:
    return np.full(len(noise), 7)


def minus_one(observation: Any, mask: Any, noise: Any) -> Any:
    return np.full(len(noise), -1)


def halves(observation: Any, mask: Any, noise: Any) -> Any:
    return np.full(len(noise), 0.5)


def one_for_all(observation: Any, mask: Any, noise: Any) -> Any:
    return 0


def none(observation: Any, mask: Any, noise: Any) -> Any: ...


def words(observation: Any, mask: Any, noise: Any) -> Any:
    return ["left"] * len(noise)


def seven_later(observation: Any, mask: Any, noise: Any) -> Any:
    return np.full(len(noise), 7 if len(noise) > 2 and np.abs(observation).max() > 0.06 else 0)


# ---------------------------------------------------------------- algorithms


class RaisingAlgorithm(PPO):
    def __init__(self, config: Any, model: Any, task: Any) -> None:
        raise ValueError("no\ntheory")


class Unfinished(Algorithm):
    Config = PPO.Config


class NoConfig(Algorithm):
    """It has no settings."""


class NoAlgorithm:
    """Inherits nothing."""


class RaisingUpdate(PPO):
    def update(self, batch: Any, learner: Any) -> Any:
        raise ValueError("no\nidea")


class NoUpdate(PPO):
    def update(self, batch: Any, learner: Any) -> Any:
        return None


class RaisingState(PPO):
    def state_dict(self) -> Any:
        raise ValueError("cannot be kept")


class NoNeeds(PPO):
    def __init__(self, config: Any, model: Any, task: Any) -> None:
        super().__init__(config, model, task)
        del self.needs


class ForgetsEverything(PPO):
    def __init__(self, config: Any, model: Any, task: Any) -> None: ...
