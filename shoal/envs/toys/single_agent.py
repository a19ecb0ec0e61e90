"""Toy environments of one agent. Each states what a perfect agent earns, which learning tests compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.base.errors import ShoalError
from shoal.envs.native.native_env import Autoreset, ByGroup, NativeEnv, Outcome
from shoal.envs.registry import AGENT


def _alone(observation_space: Space[Any], action_space: Space[Any]) -> dict[str, AgentGroup]:
    return {AGENT: AgentGroup((AGENT,), observation_space, action_space)}


class Chain(NativeEnv):
    """Walk `length` steps to the end of a chain for a reward of 1, or leave at any point with `lure`.

    Deterministic; every episode ends by termination. Action 0 leaves, action 1 walks on. Walking is worth
    `gamma ** (length - 1 - position)`.
    """

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, length: int = 5, lure: float = 0.1, autoreset: Autoreset = "same"
    ) -> None:
        super().__init__(_alone(Discrete(length + 1), Discrete(2)), num_envs, first_slot, autoreset)
        self._length, self._lure = length, lure
        self.arrays["position"] = np.zeros(num_envs, np.int64)

    @property
    def best_return(self) -> float:
        """The reward at the end of the chain."""
        return 1.0

    def begin(self, rows: Array) -> None:
        self.arrays["position"][rows] = 0

    def advance(self, actions: ByGroup) -> Outcome:
        walks = actions[AGENT][:, 0] == 1
        self.arrays["position"] += walks
        arrived = self.arrays["position"] == self._length
        reward = np.where(walks, arrived * 1.0, self._lure)
        return self.ended_together(self.for_all(reward), terminated=arrived | ~walks)

    def observe(self) -> ByGroup:
        return {AGENT: self.arrays["position"][:, None].copy()}


class Cut(NativeEnv):
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

    def begin(self, rows: Array) -> None:
        return

    def advance(self, actions: ByGroup) -> Outcome:
        return self.ended_together(self.for_all(np.ones(self.num_envs)), truncated=self.time >= self._length)

    def observe(self) -> ByGroup:
        return {AGENT: (self.time[:, None, None] / self._length).astype(np.float32)}


class Recall(NativeEnv):
    """A cue is shown once; `delay` steps later it must be named. Without memory the best is `1 / cues`.

    The observation is the cue, one-hot, in the first step, and a 1 in the last place when the answer is due.
    """

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, cues: int = 2, delay: int = 3, autoreset: Autoreset = "same"
    ) -> None:
        super().__init__(_alone(Box(0.0, 1.0, (cues + 1,)), Discrete(cues)), num_envs, first_slot, autoreset)
        self._cues, self._delay = cues, delay
        self.arrays["cue"] = np.zeros(num_envs, np.int64)

    @property
    def best_return(self) -> float:
        """One right answer."""
        return 1.0

    def begin(self, rows: Array) -> None:
        for row in rows.tolist():
            self.arrays["cue"][row] = self.generator(row).integers(self._cues)

    def advance(self, actions: ByGroup) -> Outcome:
        over = self.time == self._delay + 1
        right = actions[AGENT][:, 0] == self.arrays["cue"]
        return self.ended_together(self.for_all((over & right) * 1.0), terminated=over)

    def observe(self) -> ByGroup:
        seen = np.zeros((self.num_envs, 1, self._cues + 1), np.float32)
        shown = np.flatnonzero(self.time == 0)
        seen[shown, 0, self.arrays["cue"][shown]] = 1.0
        seen[:, 0, -1] = self.time == self._delay
        return {AGENT: seen}


class Target(NativeEnv):
    """Say the numbers you are shown: the reward is minus the squared distance. New numbers in every step."""

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, size: int = 1, length: int = 8, autoreset: Autoreset = "same"
    ) -> None:
        space = Box(-1.0, 1.0, (size,))
        super().__init__(_alone(space, space), num_envs, first_slot, autoreset)
        self._size, self._length = size, length
        self.arrays["targets"] = np.zeros((num_envs, length + 1, size), np.float32)

    @property
    def best_return(self) -> float:
        """No distance anywhere."""
        return 0.0

    def begin(self, rows: Array) -> None:
        for row in rows.tolist():
            self.arrays["targets"][row] = self.generator(row).uniform(-1.0, 1.0, (self._length + 1, self._size))

    def _shown(self, time: Array) -> Array:
        return self.arrays["targets"][np.arange(self.num_envs), time]

    def advance(self, actions: ByGroup) -> Outcome:
        answered = self._shown(np.maximum(self.time - 1, 0))
        distance = np.square(np.clip(actions[AGENT][:, 0], -1.0, 1.0) - answered).sum(axis=1)
        reward = self.for_all(-distance.astype(np.float64))
        return self.ended_together(reward, terminated=self.time >= self._length)

    def observe(self) -> ByGroup:
        return {AGENT: self._shown(self.time)[:, None]}


class Masked(NativeEnv):
    """One action is allowed in every step, and only the mask says which; any other raises. A test of masks alone."""

    def __init__(
        self, num_envs: int, *, first_slot: int = 0, actions: int = 4, length: int = 8, autoreset: Autoreset = "same"
    ) -> None:
        super().__init__(_alone(Box(0.0, 1.0, (1,)), Discrete(actions)), num_envs, first_slot, autoreset)
        self._size, self._length = actions, length
        self.arrays["allowed"] = np.zeros((num_envs, length + 1), np.int64)

    @property
    def best_return(self) -> float:
        """One for every step."""
        return float(self._length)

    def begin(self, rows: Array) -> None:
        for row in rows.tolist():
            self.arrays["allowed"][row] = self.generator(row).integers(self._size, size=self._length + 1)

    def advance(self, actions: ByGroup) -> Outcome:
        allowed = self.arrays["allowed"][np.arange(self.num_envs), np.maximum(self.time - 1, 0)]
        played = actions[AGENT][:, 0]
        wrong = np.flatnonzero(~self.idle & (played != allowed))
        if wrong.size:
            row = wrong[0]
            raise ShoalError(
                f"shoal/masked, copy {self.first_slot + row}: action {played[row]} was played where the mask "
                f"allows {allowed[row]} alone; apply Turn.action_mask before sampling"
            )
        return self.ended_together(self.for_all(np.ones(self.num_envs)), terminated=self.time >= self._length)

    def observe(self) -> ByGroup:
        return {AGENT: (self.time[:, None, None] / self._length).astype(np.float32)}

    def action_masks(self) -> ByGroup:
        allowed = self.arrays["allowed"][np.arange(self.num_envs), self.time]
        return {AGENT: allowed[:, None, None] == np.arange(self._size)}
