"""Batches of random experience, and short runs on toy environments: what the tests of all algorithms need."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient
from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.runs.evaluate import evaluate
from shoal.runs.train import train

GROUP = AgentGroup(("agent",), spaces.Box(-5, 5, (3,), np.float32), spaces.Discrete(4))
MLP = Named(name="mlp", hidden=[8])  # type: ignore[call-arg]
GRU = Named(name="gru", hidden=[8])  # type: ignore[call-arg]


def fragment(algorithm: PolicyGradient, lanes: int = 4, seed: int = 0) -> Fragment:
    """Random experience with ends of both kinds, in the builder's layout, log probabilities from the policy itself."""
    random = np.random.default_rng(seed)
    rows = algorithm.needs.unroll + 1
    valid = np.ones((rows, lanes), bool)
    valid[-1] = False
    truncated = np.zeros_like(valid)
    truncated[2, 0] = True
    valid[3, 0] = False
    terminated = np.zeros_like(valid)
    terminated[1, 1] = True
    first = np.zeros_like(valid)
    first[0], first[4, 0], first[2, 1] = True, True, True
    batch = Fragment(
        observation=random.normal(size=(rows, lanes, 3)).astype(np.float32),
        action=random.integers(0, 4, (rows, lanes)),
        reward=random.normal(size=(rows, lanes)).astype(np.float32),
        terminated=terminated, truncated=truncated, valid=valid, first=first,
        version=np.zeros((rows, lanes), np.int64),
        extras={"log_prob": np.zeros((rows, lanes), np.float32)},
        action_mask=None,
        state=None,
        lanes=np.arange(lanes),
    ).map(torch.from_numpy)  # fmt: skip
    batch.state = algorithm.policy.initial_state(lanes)
    with torch.no_grad():
        observation = algorithm.policy.normalised(batch.observation)
        batch.extras["log_prob"] = algorithm.policy.evaluate(
            observation, batch.state, batch.first, batch.action, None
        ).log_prob
    return batch


def learned(
    root: Any, world: str, algorithm: dict[str, Any], model: dict[str, Any], updates: int, **placement: Any
) -> float:
    """Train with 16 copies for some updates -> mean return of 50 greedy episodes."""
    experiment = Experiment.parse(
        {
            "env": {"id": world, "num_envs": 16},
            "algorithm": algorithm,
            "model": model,
            "placement": placement,
            "stop": {"updates": updates},
            "name": "toy",
        }
    )
    outcome = train(experiment, root=root, quiet=True)
    return evaluate(str(outcome.folder), episodes=50, root=root)[0].mean


def summed(batch: Fragment, row: int, lane: int, gamma: float, steps: int) -> tuple[float, float, int]:
    """Rewards of one lane from `row` on, until its episode ends or `steps` are in: their sum, and what counts of which row then."""
    total, discount, at = 0.0, 1.0, row
    for _ in range(steps):
        total += discount * float(batch.reward[at, lane])
        discount *= gamma
        at += 1
        if batch.terminated[at - 1, lane]:
            discount = 0.0
        if batch.terminated[at - 1, lane] or batch.truncated[at - 1, lane]:
            break
    return total, discount, at
