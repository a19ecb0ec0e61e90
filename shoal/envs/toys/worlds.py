"""Toy worlds of one agent. Each states what a perfect agent earns, so that a learning test knows what to ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.base.errors import ShoalError
from shoal.envs import AGENT
from shoal.envs.toys.toy import Autoreset, Outcome, Toy


def _alone(observation_space: Space[Any], action_space: Space[Any]) -> dict[str, AgentGroup]:
    return {AGENT: AgentGroup((AGENT,), observation_space, action_space)}


class Chain(Toy):
    """Walk `length` steps to the end of a chain for a reward of 1, or leave at any point with `lure`.

    Deterministic; every episode ends by termination. Action 0 leaves, action 1 walks on. Walking is worth
    `gamma ** (length - 1 - position)`.
    """

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, length: int = 5, lure: float = 0.1, autoreset: Autoreset = "same"
    ) -> None:
        super().__init__(_alone(Discrete(length + 1), Discrete(2)), num_envs, first_slot, autoreset)
        self._length, self._lure = length, lure
        self.world["position"] = np.zeros(num_envs, np.int64)

    @property
    def best_return(self) -> float:
        """The reward at the end of the chain."""
        return 1.0

    def _begin(self, row: int, random: np.random.Generator) -> None:
        self.world["position"][row] = 0

    def _advance(self, actions: dict[str, Array], live: Array) -> Outcome:
        walks = live & (actions[AGENT] == 1)
        self.world["position"] += walks
        arrived = self.world["position"] == self._length
        reward = np.where(walks, arrived * 1.0, self._lure)
        return Outcome(reward, arrived | ~walks, np.zeros(self.num_envs, bool))

    def _observe(self) -> dict[str, Array]:
        return {AGENT: self.world["position"].copy()}


class Cut(Toy):
    """A reward of 1 for ever, cut off after `length` steps. The observation tells what share of the steps has passed.

    Whatever the agent does, every observation is worth `1 / (1 - gamma)`, the last one too.
    """

    def __init__(self, num_envs: int, *, first_slot: int = 0, length: int = 5, autoreset: Autoreset = "same") -> None:
        super().__init__(_alone(Box(0.0, 1.0, (1,)), Discrete(2)), num_envs, first_slot, autoreset)
        self._length = length

    @property
    def best_return(self) -> float:
        """One for every step that is seen."""
        return float(self._length)

    def _begin(self, row: int, random: np.random.Generator) -> None:
        return

    def _advance(self, actions: dict[str, Array], live: Array) -> Outcome:
        return Outcome(np.ones(self.num_envs), np.zeros(self.num_envs, bool), self.time >= self._length)

    def _observe(self) -> dict[str, Array]:
        return {AGENT: (self.time[:, None] / self._length).astype(np.float32)}


class Recall(Toy):
    """A cue is shown once; `delay` steps later it must be named. Without memory the best is `1 / cues`.

    The observation is the cue, one-hot, in the first step, and a 1 in the last place when the answer is due.
    """

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, cues: int = 2, delay: int = 3, autoreset: Autoreset = "same"
    ) -> None:
        super().__init__(_alone(Box(0.0, 1.0, (cues + 1,)), Discrete(cues)), num_envs, first_slot, autoreset)
        self._cues, self._delay = cues, delay
        self.world["cue"] = np.zeros(num_envs, np.int64)

    @property
    def best_return(self) -> float:
        """One right answer."""
        return 1.0

    def _begin(self, row: int, random: np.random.Generator) -> None:
        self.world["cue"][row] = random.integers(self._cues)

    def _advance(self, actions: dict[str, Array], live: Array) -> Outcome:
        over = self.time == self._delay + 1
        right = actions[AGENT] == self.world["cue"]
        return Outcome((over & right) * 1.0, over, np.zeros(self.num_envs, bool))

    def _observe(self) -> dict[str, Array]:
        seen = np.zeros((self.num_envs, self._cues + 1), np.float32)
        shown = np.flatnonzero(self.time == 0)
        seen[shown, self.world["cue"][shown]] = 1.0
        seen[:, -1] = self.time == self._delay
        return {AGENT: seen}


class Target(Toy):
    """Say the numbers you are shown: the reward is minus the squared distance. New numbers in every step."""

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, size: int = 1, length: int = 8, autoreset: Autoreset = "same"
    ) -> None:
        space = Box(-1.0, 1.0, (size,))
        super().__init__(_alone(space, space), num_envs, first_slot, autoreset)
        self._size, self._length = size, length
        self.world["targets"] = np.zeros((num_envs, length + 1, size), np.float32)

    @property
    def best_return(self) -> float:
        """No distance anywhere."""
        return 0.0

    def _begin(self, row: int, random: np.random.Generator) -> None:
        self.world["targets"][row] = random.uniform(-1.0, 1.0, (self._length + 1, self._size))

    def _shown(self, time: Array) -> Array:
        return self.world["targets"][np.arange(self.num_envs), time]

    def _advance(self, actions: dict[str, Array], live: Array) -> Outcome:
        answered = self._shown(np.maximum(self.time - 1, 0))
        distance = np.square(np.clip(actions[AGENT], -1.0, 1.0) - answered).sum(axis=1)
        return Outcome(-distance.astype(np.float64), self.time >= self._length, np.zeros(self.num_envs, bool))

    def _observe(self) -> dict[str, Array]:
        return {AGENT: self._shown(self.time)}


class Masked(Toy):
    """One action is allowed in every step, and only the mask says which; any other raises. A test of masks alone."""

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, choices: int = 4, length: int = 8, autoreset: Autoreset = "same"
    ) -> None:
        super().__init__(_alone(Box(0.0, 1.0, (1,)), Discrete(choices)), num_envs, first_slot, autoreset)
        self._choices, self._length = choices, length
        self.world["allowed"] = np.zeros((num_envs, length + 1), np.int64)

    @property
    def best_return(self) -> float:
        """One for every step."""
        return float(self._length)

    def _begin(self, row: int, random: np.random.Generator) -> None:
        self.world["allowed"][row] = random.integers(self._choices, size=self._length + 1)

    def _advance(self, actions: dict[str, Array], live: Array) -> Outcome:
        allowed = self.world["allowed"][np.arange(self.num_envs), np.maximum(self.time - 1, 0)]
        wrong = np.flatnonzero(live & (actions[AGENT] != allowed))
        if wrong.size:
            row = wrong[0]
            raise ShoalError(
                f"shoal/masked, copy {self.first_slot + row}: action {actions[AGENT][row]} was played where the mask "
                f"allows {allowed[row]} alone; apply Turn.action_mask before sampling"
            )
        return Outcome(np.ones(self.num_envs), self.time >= self._length, np.zeros(self.num_envs, bool))

    def _observe(self) -> dict[str, Array]:
        return {AGENT: (self.time[:, None] / self._length).astype(np.float32)}

    def _masks(self) -> dict[str, Array]:
        allowed = self.world["allowed"][np.arange(self.num_envs), self.time]
        return {AGENT: allowed[:, None] == np.arange(self._choices)}
