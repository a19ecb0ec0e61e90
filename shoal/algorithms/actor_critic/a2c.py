"""A2C and A3C (Mnih et al. 2016): a batch of fresh fragments in, one step along its gradient."""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field
from torch import Tensor

from shoal.algorithms.actor_critic.one_pass import Advantages, OnePass
from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient, PolicyGradientConfig
from shoal.algorithms.returns import gae
from shoal.algorithms.settings import Live
from shoal.api.algorithm import Learner, Needs, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Metric
from shoal.base.config import Count, Named, Rate, Weight


class A2CConfig(PolicyGradientConfig):
    """Advantage actor-critic: one step per batch. As A3C its replicas step whenever they like."""

    name: Literal["a2c", "a3c"] = "a2c"
    """`a2c`: replicas of the trainer agree on every step. `a3c`: they write into the same parameters without waiting."""
    lr: Live[Rate] = 1e-3
    """Learning rate of Adam; a number, or `{start, end, steps}` to anneal it linearly."""
    unroll: Count = Field(16, ge=2)
    """Decisions per lane in one batch: the batch has `lanes x unroll` rows."""
    lam: Live[float] = Field(1.0, ge=0, le=1)
    """GAE's lambda: at 1 all rewards of the fragment count, as in the paper; 0 trusts the value function."""
    entropy: Live[Weight] = 0.01
    """Weight of the entropy bonus; a number or a schedule."""
    normalise_advantages: bool = False
    """Give the batch's advantages zero mean and unit spread."""


class A2C(PolicyGradient):
    """One step per batch. Replicas of the trainer take it together."""

    Config = A2CConfig

    def __init__(self, config: A2CConfig, model: Named, task: Task) -> None:
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=0, agree="allreduce"))
        self._one_pass = OnePass(self, partial(compute_advantages, self))

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        return self._one_pass.learn(batch, learner, entropy)


class A3C(PolicyGradient):
    """One step per batch. Replicas of the trainer write into the same parameters and wait for nobody."""

    Config = A2CConfig

    def __init__(self, config: A2CConfig, model: Named, task: Task) -> None:
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=0, agree="hogwild"))
        self._one_pass = OnePass(self, partial(compute_advantages, self))

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        return self._one_pass.learn(batch, learner, entropy)


def compute_advantages(owner: PolicyGradient, batch: Fragment, value: Tensor, log_ratio: Tensor) -> Advantages:
    """Generalised advantages; old experience is taken as if it were new."""
    ends = (batch.terminated, batch.truncated, batch.valid)
    settings = owner.settings
    advantage = gae(owner.scaled_reward(batch), value, *ends, gamma=settings.gamma, lam=settings.lam)
    return Advantages(advantage, advantage + value, {})
