"""An environment, a policy and an algorithm that cost next to nothing: what is left of a run's time is the framework's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from shoal.api.algorithm import Algorithm, Learner, Needs, Task, Update
from shoal.api.env import AgentGroup, Array, Env, Episode, Step, Turn
from shoal.api.fragment import Fragment
from shoal.api.policy import Decision, Policy, Request
from shoal.base.config import Config, Named
from shoal.base.flat import Flat

AGENT = "agent"
LENGTH = 256
"""Steps of every episode; the copies end one after the other, not all at once."""
WIDTH = 512
"""Of the products that make a policy slow."""


class FreeWorld(Env):
    """Answers with arrays made in advance: an observation of 4 floats, and episodes that end now and then.

    They are terminated, or with `truncates` cut off, after which the lanes of a fragment are no longer at equal rows.
    """

    def __init__(self, num_envs: int, *, truncates: bool = False) -> None:
        self.num_envs = num_envs
        self.groups = {AGENT: AgentGroup((AGENT,), Box(-1.0, 1.0, (4,), np.float32), Discrete(2))}
        self._time = 0
        self._steps = [self._outcome(time, truncates) for time in range(LENGTH)]

    def _outcome(self, time: int, truncates: bool) -> Step:
        ended = (np.arange(self.num_envs) * 37 % LENGTH == time)[:, None]
        none, seen = np.zeros_like(ended), np.full((self.num_envs, 1, 4), time / LENGTH, np.float32)
        cut, over = (ended, none) if truncates else (none, ended)
        turn = Turn(seen, np.ones(ended.shape, np.float32), over, cut, np.ones_like(ended), None, seen)
        returns = {AGENT: np.full(1, float(LENGTH))}
        episodes = [Episode(row, LENGTH, returns) for row in np.flatnonzero(ended).tolist()]
        return Step({AGENT: turn}, advanced=self.num_envs, episodes=episodes)

    def reset(self, seed: int) -> Step:
        self._time = 0
        return Step(self._steps[1].turns)

    def send(self, actions: dict[str, Array]) -> None:
        self._time = (self._time + 1) % LENGTH

    def recv(self, timeout: float) -> Step:
        return self._steps[self._time]


class CoinPolicy(Policy):
    """One operation on the noise; before it, `passes` products that nobody looks at."""

    noise_size = 1
    extras: dict[str, tuple[int, ...]] = {}

    def __init__(self, passes: int = 0) -> None:
        super().__init__()
        self._passes = passes
        self.weight = nn.Parameter(torch.zeros(WIDTH, WIDTH) if passes else torch.zeros(1))

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Request, *, explore: bool) -> Decision:
        if self._passes:
            features = torch.zeros(len(request.noise), WIDTH)
            for _ in range(self._passes):
                features = features @ self.weight
        return Decision((request.noise[:, 0] > 0.5).long(), {})


class FreeConfig(Config):
    """Learning nothing."""

    unroll: int = 128
    """Decisions per lane and fragment."""
    passes: int = 0
    """Products of a batch with a matrix in every decision: how slow the policy is."""


class FreeAlgorithm(Algorithm):
    """Takes batches and is done with them."""

    Config = FreeConfig

    def __init__(self, config: Any, model: Named, task: Task) -> None:
        self.needs = Needs(config.unroll, max_lag=1)
        self.policy = CoinPolicy(config.passes)
        self.flat = Flat(self.policy, gradients=False)
        self.optimisers = ()

    def update(self, batch: Fragment, learner: Learner) -> Update:
        return Update()

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.policy.state_dict())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(state)
