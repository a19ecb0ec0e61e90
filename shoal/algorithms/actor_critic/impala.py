"""IMPALA (Espeholt et al. 2018): fragments of slightly older policies in, better versions out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from shoal.algorithms.actor_critic.off_policy import VTraceConfig, rho_metrics
from shoal.algorithms.actor_critic.one_pass import Advantages, OnePass
from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient, PolicyGradientConfig
from shoal.algorithms.returns import vtrace
from shoal.algorithms.settings import Live
from shoal.api.algorithm import Learner, Needs, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Metric
from shoal.base.config import Count, Named, Rate, Weight


class IMPALAConfig(PolicyGradientConfig, VTraceConfig):
    """IMPALA: actors run ahead, V-trace corrects for it, every row is learned from once."""

    name: Literal["impala"] = "impala"
    lr: Live[Rate] = 1e-3
    """Learning rate of Adam; a number, or `{start, end, steps}` to anneal it linearly."""
    unroll: Count = Field(20, ge=2)
    """Decisions per lane in one batch: the batch has `lanes x unroll` rows."""
    parts: Count = Field(1, ge=1)
    """Steps per batch: its lanes are dealt out into this many parts, one step each."""
    lam: Live[float] = Field(1.0, ge=0, le=1)
    """Lambda of V-trace: 0 trusts the value function, 1 trusts the rewards seen."""
    entropy: Live[Weight] = 0.01
    """Weight of the entropy bonus; a number or a schedule."""
    normalise_advantages: bool = False
    """Give the advantages of each part zero mean and unit spread."""


class IMPALA(PolicyGradient):
    """One pass over each batch, with advantages by V-trace."""

    Config = IMPALAConfig
    settings: IMPALAConfig

    def __init__(self, config: IMPALAConfig, model: Named, task: Task) -> None:
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=1))
        self.one_pass = OnePass(self, self.compute_advantages, config.parts)

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        return self.one_pass.learn(batch, learner, entropy)

    def compute_advantages(self, batch: Fragment, value: Tensor, log_ratio: Tensor) -> Advantages:
        """Targets and advantages by V-trace, with the weights it gave."""
        config = self.settings
        seen = vtrace(
            self.scaled_reward(batch), value, log_ratio, batch.terminated, batch.truncated, batch.valid,
            gamma=config.gamma, lam=config.lam, rho_bar=config.rho_bar, c_bar=config.c_bar,
        )  # fmt: skip
        return Advantages(seen.advantage, seen.target, rho_metrics(log_ratio, config.rho_bar))
