"""A policy whose action is its version, and an environment that pays what it is given: a return tells who played."""

from __future__ import annotations

import multiprocessing
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from shoal.api.algorithm import Algorithm, Learner, Needs, Task, Update
from shoal.api.fragment import Fragment
from shoal.api.policy import Decision, Policy, Request
from shoal.base.config import Config, Named
from shoal.base.flat import Flat


class Revealing(Policy):
    """Plays the number of its version."""

    noise_size = 0
    extras: dict[str, tuple[int, ...]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.version = nn.Parameter(torch.zeros(1))

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Request, *, explore: bool) -> Decision:
        return Decision(self.version.detach().expand(len(request.first), 1).clone(), {}, None)


class CountingConfig(Config):
    """Nothing to set."""

    seconds: float = 0.0
    """That an update takes."""


class Counting(Algorithm):
    """Counts its updates, and learns nothing else."""

    Config = CountingConfig
    optimisers = ()

    def __init__(self, config: CountingConfig, model: Named, task: Task) -> None:
        self.needs, self.policy, self._seconds = Needs(unroll=2), Revealing(), config.seconds
        self.flat = Flat(self.policy, gradients=True)

    def update(self, batch: Fragment, learner: Learner) -> Update:
        time.sleep(self._seconds)
        self.flat.parameters.add_(1.0)
        return Update()

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.policy.state_dict())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(state)


class Paying(gymnasium.Env[np.ndarray, np.ndarray]):
    """Pays the action, in episodes of 3 to 20 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(0, 1e6, (1,), np.float32)

    def __init__(self, seconds: float, hangs: bool, falling: bool) -> None:
        self._sign = -1 if falling else 1
        judged = multiprocessing.current_process().name == "evaluation"
        self._seconds, self._hangs = (seconds, hangs) if judged else (0.0, False)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(3, 21))
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        time.sleep(self._seconds)
        if self._hangs:
            threading.Event().wait()
        return np.zeros(1, np.float32), self._sign * float(action[0]), self._left == 0, False, {"left": self._left}


def paying(seconds: float = 0.0, hangs: bool = False, falling: bool = False) -> Paying:
    """`seconds` a step where versions are evaluated, none where they are trained; or it hangs. Falling: it asks to be paid."""
    return Paying(seconds, hangs, falling)
