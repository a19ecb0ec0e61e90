"""APPO: fragments of slightly older policies in, several clipped passes over them, better versions out."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from shoal.algorithms.actor_critic.clipped import ClippedConfig, ClippedPasses
from shoal.algorithms.actor_critic.minibatches import Experience
from shoal.algorithms.actor_critic.off_policy import VTraceConfig, rho_metrics
from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient, PolicyGradientConfig
from shoal.algorithms.actor_critic.replicas import normalised
from shoal.algorithms.learner import number
from shoal.algorithms.returns import vtrace
from shoal.algorithms.rows import places_of, taken
from shoal.api.algorithm import Learner, Needs, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Mean, Metric
from shoal.base.config import Named


class APPOConfig(PolicyGradientConfig, ClippedConfig, VTraceConfig):
    """Asynchronous PPO: actors run ahead, V-trace corrects the values for it, PPO's clip bounds the policy."""

    name: Literal["appo"] = "appo"


class APPO(PolicyGradient):
    """Computes advantages once, by V-trace; then the clipped passes."""

    Config = APPOConfig
    settings: APPOConfig

    def __init__(self, config: APPOConfig, model: Named, task: Task) -> None:
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=1))
        self.passes = ClippedPasses(self)

    def _use(self, settings: PolicyGradientConfig) -> None:
        super()._use(settings)
        self.passes.choose()

    def moved(self) -> None:
        self.passes.choose()

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        experience, log_ratio = self.compute_advantages(batch, learner)
        metrics = self.passes.learn(experience, learner, entropy)
        if experience.rows:
            assert experience.places is not None
            rhos = rho_metrics(taken(log_ratio, experience.places), self.settings.rho_bar)
            metrics |= {f"train/{name}": Mean(number(rows.mean())) for name, rows in rhos.items()}
        return metrics

    @torch.no_grad()
    def compute_advantages(self, batch: Fragment, learner: Learner) -> tuple[Experience, Tensor]:
        """Values and log-probabilities of all rows by the newest parameters, then V-trace; also the log-ratios `[R, B]`."""
        config = self.settings
        observation = self.policy.normalised(batch.observation)
        now = self.policy.evaluate(observation, batch.state, batch.first, batch.action, batch.action_mask)
        log_ratio = now.log_prob - batch.extras["log_prob"]
        seen = vtrace(
            self.scaled_reward(batch), now.value, log_ratio, batch.terminated, batch.truncated, batch.valid,
            gamma=config.gamma, lam=config.lam, rho_bar=config.rho_bar, c_bar=config.c_bar,
        )  # fmt: skip
        # Not weighted by rho: the surrogate's ratio is against the policy that acted and weighs each row itself.
        advantage, places = seen.gain, places_of(batch.valid)
        if config.normalise_advantages:
            advantage = normalised(advantage, places, learner.mean)
        experience = Experience(
            observation, batch.action, batch.extras["log_prob"], advantage, seen.target, now.value,
            batch.first, batch.action_mask, batch.state, batch.valid, places,
        )  # fmt: skip
        return experience, log_ratio
