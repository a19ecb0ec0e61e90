"""PPO (Schulman et al. 2017): batches of fresh fragments in, better versions out."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from shoal.algorithms.actor_critic.clipped import ClippedConfig, ClippedPasses
from shoal.algorithms.actor_critic.minibatches import Experience
from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient, PolicyGradientConfig
from shoal.algorithms.actor_critic.replicas import normalised
from shoal.algorithms.actor_critic.value_scale import ValueScale
from shoal.algorithms.returns import gae
from shoal.algorithms.rows import other_places, places_of, taken
from shoal.api.algorithm import Learner, Needs, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Metric
from shoal.base.config import Named
from shoal.base.tree import Tree, tree_map


class PPOConfig(PolicyGradientConfig, ClippedConfig):
    """Proximal policy optimisation: several careful passes over each batch of fresh experience.

    With many agents, `critic: own` is IPPO and `critic: central` MAPPO.
    """

    name: Literal["ppo"] = "ppo"
    normalise_values: bool = False
    """Let the value function learn returns of zero mean and unit spread, by statistics saved with the policy."""


class PPO(PolicyGradient):
    """Computes advantages once, by GAE; then the clipped passes."""

    Config = PPOConfig
    settings: PPOConfig

    def __init__(self, config: PPOConfig, model: Named, task: Task) -> None:
        scale = ValueScale() if config.normalise_values else None
        # Values on a scale of their own are restored by statistics that move on: those are taken in the trainer.
        super().__init__(config, model, task, Needs(unroll=config.unroll, max_lag=0), scale, tell_values=scale is None)
        self.passes = ClippedPasses(self)

    def _use(self, settings: PolicyGradientConfig) -> None:
        super()._use(settings)
        self.passes.choose()

    def moved(self) -> None:
        self.passes.choose()

    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        return self.passes.learn(self.compute_advantages(batch, learner), learner, entropy)

    @torch.no_grad()
    def compute_advantages(self, batch: Fragment, learner: Learner) -> Experience:
        """Values of all rows, then advantages and targets."""
        observation, places = self.policy.normalised(batch.observation), places_of(batch.valid)
        value = self._values(batch, observation, places)
        if self.value_scale is not None:
            value = self.value_scale.restored(value)
        ends = (batch.terminated, batch.truncated, batch.valid)
        advantage = gae(self.scaled_reward(batch), value, *ends, gamma=self.settings.gamma, lam=self.settings.lam)
        target = advantage + value
        if self.value_scale is not None:
            self.value_scale.update(target, places, learner.mean)
            target, value = self.value_scale(target), self.value_scale(value)
        if self.settings.normalise_advantages:
            advantage = normalised(advantage, places, learner.mean)
        return Experience(
            observation, batch.action, batch.extras["log_prob"], advantage, target, value,
            batch.first, batch.action_mask, batch.state, batch.valid, places,
        )  # fmt: skip

    def _values(self, batch: Fragment, observation: Tree, places: Tensor) -> Tensor:
        """`[R, B]`: as they were told with the decisions, where they were; the rest by the newest parameters."""
        told = batch.extras.get("value")
        if told is None:
            return self.policy.values(observation, batch.state, batch.first)
        value, unknown = told.flatten(), other_places(batch.valid, places)
        seen = tree_map(lambda t: taken(t, unknown).unsqueeze(0), observation)
        first = batch.first.flatten()[unknown].unsqueeze(0)
        return value.index_copy(0, unknown, self.policy.values(seen, None, first)[0]).view_as(told)
