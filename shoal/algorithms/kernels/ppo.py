"""PPO's loss and gradient for the standard policy: separate tanh MLPs for actor and critic, one choice of n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from shoal.algorithms.actor_critic import ActorCritic
from shoal.algorithms.kernels import numbers
from shoal.algorithms.kernels.tower import Tower
from shoal.api.env import Array
from shoal.api.policy import Model
from shoal.models.heads.discrete import Categorical
from shoal.models.mlp import MLPModel

_not_finite_later = np.errstate(invalid="ignore", over="ignore")
"""What is not finite shows in the gradient's norm."""


@dataclass(frozen=True)
class Judged:
    """A minibatch's loss. Rows are `[N]`; `by_logit` and `by_value` are the loss's derivatives."""

    policy: float
    value: float
    entropy: Array
    log_ratio: Array
    by_logit: Array
    by_value: Array


class PPOKernel:
    """Computes what `ClippedPasses.loss` and `backward` compute, without a graph."""

    def __init__(self, policy: ActorCritic) -> None:
        assert isinstance(policy.actor, MLPModel)
        assert isinstance(policy.critic, MLPModel)
        self._actor = Tower(_linears(policy.actor, policy.head.linear))
        self._critic = Tower(_linears(policy.critic, policy.value))

    @staticmethod
    def suits(policy: ActorCritic) -> bool:
        """Whether this policy is the one that the formulas below are written for."""
        head = policy.head
        choice = type(head) is Categorical and head.start == 0 and head.linear.weight.device.type == "cpu"
        return choice and not policy.shared and all(_is_plain(model) for model in (policy.actor, policy.critic))

    @_not_finite_later
    def judge(
        self, observation: Tensor, world: Tensor, action: Tensor, old_log_prob: Tensor, advantage: Tensor,
        target: Tensor, *, clip: float, value_coef: float, entropy_coef: float,
    ) -> Judged:  # fmt: skip
        """observation, world (what the critic sees) `[N, ...]`, the others `[N]`.

        d log p(a) / d logit = onehot(a) - p and dH / d logit = -p (log p + H).
        """
        index, weight = action.numpy(), advantage.numpy()
        at, scale = (numbers(len(index)), index), np.float32(1.0 / len(index))
        log_probs, probs = _softmax(self._actor.forward(observation.flatten(1).numpy()))
        error = self._critic.forward(world.flatten(1).numpy())[:, 0] - target.numpy()
        log_ratio = log_probs[at] - old_log_prob.numpy()
        ratio = np.exp(log_ratio)
        free = ratio * weight
        bound = np.minimum(np.maximum(ratio, np.float32(1.0 - clip)), np.float32(1.0 + clip)) * weight
        entropy = -np.einsum("ij,ij->i", probs, log_probs)
        by_log_prob = np.where(free <= bound, -free, np.float32(0)) * scale
        by_logit = probs * -by_log_prob[:, None]
        by_logit[at] += by_log_prob
        if entropy_coef:
            by_logit += probs * (log_probs + entropy[:, None]) * (np.float32(entropy_coef) * scale)
        by_value = (error * (np.float32(value_coef) * scale))[:, None]
        policy, value = -float(np.minimum(free, bound).mean()), 0.5 * float(np.dot(error, error) * scale)
        return Judged(policy, value, entropy, log_ratio, by_logit, by_value)

    @_not_finite_later
    def backward(self, judged: Judged) -> None:
        """Write the gradient of the minibatch judged last."""
        self._actor.backward(judged.by_logit)
        self._critic.backward(judged.by_value)


def _softmax(logits: Array) -> tuple[Array, Array]:
    """Logarithms and probabilities, `[N, n]`; the logarithms take the place of the logits."""
    logits -= np.maximum.reduce(logits, 1, keepdims=True)
    probs = np.exp(logits)
    total = np.add.reduce(probs, 1, keepdims=True)
    logits -= np.log(total)
    probs /= total
    return logits, probs


def _linears(model: MLPModel, output: nn.Linear) -> list[nn.Linear]:
    return [*(linear for linear in model.dense.linears if isinstance(linear, nn.Linear)), output]


def _is_plain(model: Model | None) -> bool:
    if type(model) is not MLPModel:  # a subclass may do what it likes
        return False
    return model.dense.norms is None and model.dense.activation is torch.tanh and model.vector.plain
