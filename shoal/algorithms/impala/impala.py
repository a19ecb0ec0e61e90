"""IMPALA (Espeholt et al. 2018): fragments of slightly older policies in, better versions out."""

from __future__ import annotations

from torch import Tensor

from shoal.algorithms.impala.config import IMPALAConfig
from shoal.algorithms.off_policy import rho_metrics
from shoal.algorithms.one_pass import Judgement, OnePass
from shoal.algorithms.policy_gradient import PolicyGradient
from shoal.algorithms.returns import vtrace
from shoal.api.algorithm import Learner, Needs, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Metric
from shoal.base.config import Named


class IMPALA(PolicyGradient):
    """One pass over each batch, judged by V-trace."""

    Config = IMPALAConfig
    settings: IMPALAConfig

    def __init__(self, config: IMPALAConfig, model: Named, task: Task) -> None:
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=1))
        self.one_pass = OnePass(self, self.judge, config.parts)

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        return self.one_pass.learn(batch, learner, entropy)

    def judge(self, batch: Fragment, value: Tensor, log_ratio: Tensor) -> Judgement:
        """Targets and advantages by V-trace, with the weights it gave."""
        config = self.settings
        seen = vtrace(
            self.scaled_reward(batch), value, log_ratio, batch.terminated, batch.truncated, batch.valid,
            gamma=config.gamma, lam=config.lam, rho_bar=config.rho_bar, c_bar=config.c_bar,
        )  # fmt: skip
        return Judgement(seen.advantage, seen.target, rho_metrics(log_ratio[batch.valid], config.rho_bar))
