"""Decisions of the standard small policy: dense layers, tanh or relu, then Discrete actions by numpy or Gaussian ones by a head.

At 16 rows `ActorCritic.act` makes some forty calls, and each costs more than its arithmetic. Here are eight into torch and ten
into numpy. The layers stay with torch: its products of matrices give a row the same bits in any company, numpy's do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shoal.algorithms.kernels import WIDEST, numbers
from shoal.algorithms.kernels.dense import ACTIVATIONS
from shoal.api.env import Array
from shoal.models.heads.continuous import Gaussian
from shoal.models.heads.discrete import Categorical
from shoal.models.heads.head import ILLEGAL
from shoal.models.mlp import MLPModel


class DenseActor:
    """Observations and uniforms in, actions and their log-probabilities out: what the head does, on arrays."""

    def __init__(self, actor: MLPModel, head: Categorical | Gaussian) -> None:
        linears = [linear for linear in (*actor.dense.linears, head.linear) if isinstance(linear, nn.Linear)]
        self._layers = [(linear.bias.detach(), linear.weight.detach().t()) for linear in linears]
        self._activate = ACTIVATIONS[actor.dense.activation]
        self._head = head
        self._first = linears[0].weight
        self._lies_at = self._first.data_ptr()

    @staticmethod
    def suits(actor: nn.Module, head: nn.Module) -> bool:
        """Whether the formulas below are those of this policy, as long as it lives on the CPU."""
        if type(actor) is not MLPModel or type(head) not in (Categorical, Gaussian):  # a subclass may do what it likes
            return False
        dense = actor.dense
        widths = [linear.in_features for linear in (*dense.linears, head.linear) if isinstance(linear, nn.Linear)]
        plain = dense.norms is None and dense.activation in ACTIVATIONS and actor.vector.plain
        return plain and max(widths) <= WIDEST

    @property
    def current(self) -> bool:
        """The parameters still lie where they lay."""
        return self._first.data_ptr() == self._lies_at

    def __call__(
        self, observation: Any, noise: Array, mask: Array | None, *, explore: bool
    ) -> tuple[Array, dict[str, Array]]:
        """See `Policy.quick`."""
        parameters = self._parameters(torch.from_numpy(observation.reshape(len(observation), -1)))
        if isinstance(self._head, Gaussian):
            return _gaussian(self._head, parameters, noise, explore=explore)
        logits, start = parameters.numpy(), self._head.start
        if mask is not None:
            logits = np.where(mask, logits, np.float32(ILLEGAL))
        if not explore:
            return logits.argmax(1) + start, {}
        index, log_prob = _draw(logits, noise)
        return (index + start if start else index), {"log_prob": log_prob}

    def _parameters(self, x: Tensor) -> Tensor:
        """Of the head's distribution."""
        *hidden, (bias, weight) = self._layers
        for each_bias, each_weight in hidden:
            x = self._activate(torch.addmm(each_bias, x, each_weight))
        return torch.addmm(bias, x, weight)


def _gaussian(head: Gaussian, means: Tensor, noise: Array, *, explore: bool) -> tuple[Array, dict[str, Array]]:
    if not explore:
        return head.mode(means).numpy(), {}
    with torch.inference_mode():
        action, log_prob = head.sample(means, torch.from_numpy(noise))
        return action.numpy(), {"log_prob": log_prob.numpy()}


@np.errstate(invalid="ignore")  # what is not finite is counted where it is learnt from
def _draw(logits: Array, noise: Array) -> tuple[Array, Array]:
    """Logits `[B, n]`, uniforms `[B, 1]` -> index `[B]` and its log-probability: see `shoal.models.heads.discrete.draw`."""
    logits -= np.maximum.reduce(logits, 1, keepdims=True)
    cdf = np.add.accumulate(np.exp(logits), 1)
    total = cdf[:, -1:]
    index = np.add.reduce(cdf <= noise * total, 1)
    return index, logits[numbers(len(index)), index] - np.log(total[:, 0])
