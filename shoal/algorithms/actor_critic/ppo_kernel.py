"""PPO's loss and gradient for the standard policy: separate MLPs, tanh or relu, for actor and critic, Discrete actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import nn

from shoal.algorithms.actor_critic.policy import ActorCritic
from shoal.algorithms.kernels import numbers
from shoal.algorithms.kernels.mlp import ACTIVATIONS, MLP, Scratch
from shoal.api.env import Array
from shoal.api.policy import Model
from shoal.base.arithmetic import by_hand
from shoal.models.heads.discrete import Categorical
from shoal.models.mlp import MLPModel

_not_finite_later = np.errstate(invalid="ignore", over="ignore")
"""What is not finite shows in the gradient's norm."""


class Rows(NamedTuple):
    """What there is to learn from, and nothing else: `[N]`, what is seen `[N, width]`."""

    observation: Array
    critic_observation: Array
    """What the critic sees: the very same array where it sees no more than the actor."""
    action: Array
    log_prob: Array
    advantage: Array
    target: Array

    def shuffled(self, random: np.random.Generator, sizes: list[int]) -> Iterator[Rows]:
        """All of them once, in a new order, in parts of these sizes; where there is one part alone, as they are."""
        if len(sizes) == 1:
            yield self
            return
        order = random.permutation(len(self.action))
        seen = self.observation.take(order, 0)
        critic = seen if self.critic_observation is self.observation else self.critic_observation.take(order, 0)
        new = Rows(seen, critic, *(column.take(order) for column in self[2:]))
        ends = np.cumsum(sizes).tolist()
        yield from (Rows(*(column[end - size : end] for column in new)) for size, end in zip(sizes, ends, strict=True))


@dataclass(frozen=True)
class KernelLoss:
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
        scratch = Scratch()
        self._actor = _mlp(policy.actor, policy.head.linear, scratch)
        self._critic = _mlp(policy.critic, policy.value, scratch)

    @staticmethod
    def suits(policy: ActorCritic) -> bool:
        """Whether this policy is the one that the formulas below are written for."""
        head = policy.head
        discrete = (
            type(head) is Categorical and head.start == 0 and by_hand(head.linear.weight, policy.actor.arithmetic)
        )
        return discrete and not policy.shared and all(_is_plain(model) for model in (policy.actor, policy.critic))

    @_not_finite_later
    def loss(self, rows: Rows, *, clip: float, value_coef: float, entropy_coef: float) -> KernelLoss:
        """d log p(a) / d logit = onehot(a) - p and dH / d logit = -p (log p + H)."""
        weight = rows.advantage
        at, scale = (numbers(len(weight)), rows.action), np.float32(1.0 / len(weight))
        log_probs, probs = _softmax(self._actor.forward(rows.observation))
        error = self._critic.forward(rows.critic_observation)[:, 0] - rows.target
        log_ratio = log_probs[at] - rows.log_prob
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
        policy, value = (
            -float(np.add.reduce(np.minimum(free, bound)) * scale),
            0.5 * float(np.dot(error, error) * scale),
        )
        return KernelLoss(policy, value, entropy, log_ratio, by_logit, by_value)

    @_not_finite_later
    def backward(self, loss: KernelLoss) -> None:
        """Write the gradient of the minibatch whose loss was computed last."""
        self._actor.backward(loss.by_logit)
        self._critic.backward(loss.by_value)


def _softmax(logits: Array) -> tuple[Array, Array]:
    """Logarithms and probabilities, `[N, n]`; the logarithms take the place of the logits."""
    logits -= np.maximum.reduce(logits, 1, keepdims=True)
    probs = np.exp(logits)
    total = np.add.reduce(probs, 1, keepdims=True)
    logits -= np.log(total)
    probs /= total
    return logits, probs


def _mlp(model: MLPModel, output: nn.Linear, scratch: Scratch) -> MLP:
    hidden = [linear for linear in model.dense.linears if isinstance(linear, nn.Linear)]
    return MLP([*hidden, output], scratch, activation=ACTIVATIONS[model.dense.activation])


def _is_plain(model: Model | None) -> bool:
    if type(model) is not MLPModel:  # a subclass may do what it likes
        return False
    return model.dense.norms is None and model.dense.activation in ACTIVATIONS and model.vector.plain
