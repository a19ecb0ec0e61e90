"""Several passes over a judged batch by the clipped surrogate (Schulman et al. 2017): what PPO and APPO do alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from pydantic import Field

from shoal.algorithms.descent import Loss, descend
from shoal.algorithms.kernels.ppo import PPOKernel
from shoal.algorithms.losses import clipped_policy_loss, explained_variance, value_loss
from shoal.algorithms.minibatches import Experience, LaneMinibatches, Minibatches, RowMinibatches, count_minibatches
from shoal.algorithms.policy_gradient import PolicyGradient
from shoal.api.algorithm import Learner
from shoal.api.metric import Mean, Metric
from shoal.base.config import Config, Count
from shoal.base.seeding import generator


class ClippedConfig(Config):
    """How the passes are taken."""

    epochs: Count = Field(4, ge=1)
    """Passes over each batch. On a CPU 1 to 2 is often faster in wall time."""
    minibatch: Count = Field(256, ge=2)
    """Rows per parameter change, over all replicas of the trainer; divides the batch. Recurrent models take whole lanes, so
    there it is a multiple of `unroll x replicas`."""
    clip: float = Field(0.2, gt=0)
    """How far the new policy may move from the one that acted, as a probability ratio."""
    value_clip: float | None = Field(None, gt=0)
    """How far a value may move in one update before its loss stops falling; left out: freely."""
    target_kl: float | None = Field(None, gt=0)
    """Stop the passes once the policy has moved 1.5 times this far from the one that acted."""


class ClippedPasses:
    """Judged experience in, steps of the optimiser and their metrics out."""

    def __init__(self, owner: PolicyGradient, config: ClippedConfig) -> None:
        self._owner, self.config, self._value_coef = owner, config, owner.settings.value_coef
        policy = self._policy = owner.policy
        self._count = count_minibatches(config.minibatch, owner.needs.unroll, owner.task, recurrent=policy.recurrent)
        by_hand = config.value_clip is None and PPOKernel.suits(policy)
        self.kernel = PPOKernel(policy) if by_hand else None

    def learn(self, experience: Experience, learner: Learner, entropy: float) -> dict[str, Metric]:
        """All passes. `entropy`: the weight of the bonus now."""
        losses = (self.loss(part, entropy) for part in self._passes(experience))
        descent = descend(losses, self._owner.optimiser, learner, target_kl=self.config.target_kl)
        metrics = descent.metrics(self.config.clip)
        if experience.rows:
            valid = experience.valid
            explained = explained_variance(experience.value[valid], experience.target[valid])
            metrics["train/explained_variance"] = Mean(float(explained))
        return metrics

    def _passes(self, experience: Experience) -> Iterator[Experience]:
        kind = LaneMinibatches if self._policy.recurrent else RowMinibatches
        parts: Minibatches[Experience] = kind(experience, self._count)
        for epoch in range(self.config.epochs):
            yield from parts.epoch(generator(self._owner.task.seed, "minibatches", self._owner.updates, epoch))

    def loss(self, part: Experience, entropy_coef: float) -> Loss:
        """Of one minibatch, by the parameters as they are."""
        if not part.rows:
            return Loss.of_nothing()
        if self.kernel is not None and part.action_mask is None:
            return self._loss_by_hand(self.kernel, part, entropy_coef)
        new = self._policy.evaluate(part.observation, part.state, part.first, part.action, part.action_mask)
        pick = (lambda x: x) if part.valid is None else (lambda x: x[part.valid])
        log_ratio = pick(new.log_prob - part.log_prob)
        policy = clipped_policy_loss(log_ratio.exp(), pick(part.advantage), self.config.clip).mean()
        value = value_loss(pick(new.value), pick(part.target), pick(part.value), self.config.value_clip)
        entropy = pick(new.entropy)
        total = policy + self._value_coef * value
        if entropy_coef:
            total = total - entropy_coef * entropy.mean()
        return Loss(total, policy, value, entropy, log_ratio, total.backward)

    def _loss_by_hand(self, kernel: PPOKernel, part: Experience, entropy_coef: float) -> Loss:
        """The same numbers without autograd."""
        columns = (*self._policy.split(part.observation), part.action, part.log_prob, part.advantage, part.target)
        judged = kernel.judge(
            *(column[0] for column in columns),
            clip=self.config.clip,
            value_coef=self._value_coef,
            entropy_coef=entropy_coef,
        )
        total = judged.policy + self._value_coef * judged.value
        if entropy_coef:
            total -= entropy_coef * float(judged.entropy.mean())
        whole, policy, value = torch.tensor([total, judged.policy, judged.value]).unbind()
        entropy, log_ratio = torch.from_numpy(judged.entropy), torch.from_numpy(judged.log_ratio)
        return Loss(whole, policy, value, entropy, log_ratio, partial(kernel.backward, judged))
