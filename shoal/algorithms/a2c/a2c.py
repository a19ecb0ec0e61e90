"""A2C and A3C (Mnih et al. 2016): a batch of fresh fragments in, one step along its gradient."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from shoal.algorithms.a2c.config import A2CConfig
from shoal.algorithms.one_pass import Judgement, OnePass
from shoal.algorithms.policy_gradient import PolicyGradient
from shoal.algorithms.returns import gae
from shoal.api.algorithm import Learner, Needs, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Metric
from shoal.base.config import Named


class A2C(PolicyGradient):
    """One step per batch. Replicas of the trainer take it together."""

    Config = A2CConfig

    def __init__(self, config: A2CConfig, model: Named, task: Task) -> None:
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=0, agree="allreduce"))
        self._one_pass = OnePass(self, partial(judge, self))

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        return self._one_pass.learn(batch, learner, entropy)


class A3C(PolicyGradient):
    """One step per batch. Replicas of the trainer write into the same parameters and wait for nobody."""

    Config = A2CConfig

    def __init__(self, config: A2CConfig, model: Named, task: Task) -> None:
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=0, agree="hogwild"))
        self._one_pass = OnePass(self, partial(judge, self))

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        return self._one_pass.learn(batch, learner, entropy)


def judge(owner: PolicyGradient, batch: Fragment, value: Tensor, log_ratio: Tensor) -> Judgement:
    """Generalised advantages; old experience is taken as if it were new."""
    ends = (batch.terminated, batch.truncated, batch.valid)
    settings = owner.settings
    advantage = gae(owner.scaled_reward(batch), value, *ends, gamma=settings.gamma, lam=settings.lam)
    return Judgement(advantage, advantage + value, {})
