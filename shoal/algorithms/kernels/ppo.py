"""PPO's loss and gradient for the standard policy: separate tanh MLPs for actor and critic, one choice of n."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shoal.algorithms.actor_critic import ActorCritic
from shoal.algorithms.kernels.tower import Tower
from shoal.api.policy import Model
from shoal.models.heads.discrete import Categorical
from shoal.models.mlp import MLPModel


@dataclass(frozen=True)
class Judged:
    """A minibatch's loss. Rows are `[N]`; `by_logit` and `by_value` are the loss's derivatives."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor
    by_logit: Tensor
    by_value: Tensor


class PPOKernel:
    """Computes what `ClippedPasses.loss` and `backward` compute, without a graph."""

    def __init__(self, policy: ActorCritic) -> None:
        assert isinstance(policy.actor, MLPModel)
        assert isinstance(policy.critic, MLPModel)
        self._actor = Tower([*policy.actor.dense.linears, policy.head.linear])
        self._critic = Tower([*policy.critic.dense.linears, policy.value])

    @staticmethod
    def suits(policy: ActorCritic) -> bool:
        """Whether this policy is the one that the formulas below are written for."""
        head = policy.head
        choice = type(head) is Categorical and head.start == 0
        return choice and not policy.shared and all(_is_plain(model) for model in (policy.actor, policy.critic))

    @torch.no_grad()
    def judge(
        self, observation: Tensor, world: Tensor, action: Tensor, old_log_prob: Tensor, advantage: Tensor,
        target: Tensor, *, clip: float, value_coef: float, entropy_coef: float,
    ) -> Judged:  # fmt: skip
        """observation, world (what the critic sees) `[N, ...]`, the others `[N]`.

        d log p(a) / d logit = onehot(a) - p and dH / d logit = -p (log p + H).
        """
        n = len(action)
        log_probs = self._actor.forward(observation.flatten(1)).log_softmax(0)
        value = self._critic.forward(world.flatten(1))[0]
        probs, index = log_probs.exp(), action.unsqueeze(0)
        log_ratio = log_probs.gather(0, index)[0] - old_log_prob
        ratio = log_ratio.exp()
        free, bound = ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage
        entropy = (probs * log_probs).sum(0).neg_()
        error = value - target
        by_log_prob = torch.where(free <= bound, free, 0.0).mul_(-1.0 / n)
        by_logit = (probs * by_log_prob).neg_().scatter_add_(0, index, by_log_prob.unsqueeze(0))
        if entropy_coef:
            by_logit += probs * (log_probs + entropy) * (entropy_coef / n)
        return Judged(
            -torch.minimum(free, bound).mean(), 0.5 * error.square().mean(), entropy, log_ratio,
            by_logit, (error * (value_coef / n)).unsqueeze(0),
        )  # fmt: skip

    @torch.no_grad()
    def backward(self, judged: Judged) -> None:
        """Write the gradient of the minibatch judged last."""
        self._actor.backward(judged.by_logit)
        self._critic.backward(judged.by_value)


def _is_plain(model: Model | None) -> bool:
    if not isinstance(model, MLPModel):
        return False
    return model.dense.norms is None and model.dense.activation is torch.tanh and model.vector.plain
