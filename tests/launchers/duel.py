"""A batched environment of two players of one group: each is paid 1 for saying 1, ten times; then the episode ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.api.env import AgentGroup, Array, Env, Episode, Step, Turn


class Pair(Env):
    LENGTH = 10

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.groups = {"player": AgentGroup(("player_0", "player_1"), space, spaces.Discrete(2))}
        self._time = 0
        self._earned = np.zeros((num_envs, 2), np.float32)

    def reset(self, seed: int) -> Step:
        self._time = 0
        self._earned[:] = 0.0
        return self._step(np.zeros((self.num_envs, 2), np.float32), ended=False)

    def send(self, actions: dict[str, Array]) -> None:
        self._paid = (actions["player"] == 1).astype(np.float32)

    def recv(self, timeout: float) -> Step:
        self._earned += self._paid
        self._time += 1
        ended = self._time == self.LENGTH
        step = self._step(self._paid, ended=ended)
        step.advanced = self.num_envs
        if ended:
            step.episodes = [
                Episode(row, self.LENGTH, {"player": self._earned[row].copy()}) for row in range(self.num_envs)
            ]
            self._time = 0
            self._earned[:] = 0.0
        return step

    def _step(self, reward: Array, *, ended: bool) -> Step:
        shape = (self.num_envs, 2)
        time = 0 if ended else self._time
        turn = Turn(
            observation=np.full((*shape, 1), time / self.LENGTH, np.float32),
            reward=reward,
            terminated=np.full(shape, ended),
            truncated=np.zeros(shape, np.bool_),
            acting=np.ones(shape, np.bool_),
            final_observation=np.ones((*shape, 1), np.float32),
        )
        return Step({"player": turn})


def pair(num_envs: int) -> Pair:
    return Pair(num_envs)


def always_zero(observation: Any, mask: Array | None, noise: Array) -> Array:
    return np.zeros(len(noise), np.int64)
