"""SAC with numbers as actions and dense networks, without autograd around them: values out, gradients back by hand.

The policy looks at all rows of a batch at once, those to learn from and those that follow. The gradient of the lesser of two values
goes to one critic alone, so each critic goes back through its own rows, not through all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shoal.algorithms.kernels import dense
from shoal.algorithms.kernels.dense import ACTIVATIONS, Dense, Layer
from shoal.algorithms.sac.actions import Seen, Weighed
from shoal.algorithms.sac.critics import ACTION, Stacked, Twins
from shoal.algorithms.sac.losses import soft_value
from shoal.algorithms.sac.policy import SACPolicy
from shoal.api.sight import OWN
from shoal.base.arithmetic import by_hand
from shoal.models.heads import SquashedGaussian
from shoal.models.mlp import MLPModel


class SACKernel:
    """Legal order: `look`; `taken`, then `learn_critics`; `weigh`, then `learn_actor`. Rows are `[R, B]`."""

    def __init__(self, policy: SACPolicy, critics: Twins, target: Twins) -> None:
        assert isinstance(policy.model, MLPModel)
        assert isinstance(policy.head, SquashedGaussian)
        self._model, self._head, self._critics, self._target = policy.model, policy.head, critics, target
        self._actor = Dense(lambda: _of_policy(policy), policy.head.linear.weight, policy.model.dense.activation)
        self._pair, self._slow = _pair(critics), _pair(target)

    @staticmethod
    def suits(policy: SACPolicy, critics: Twins) -> bool:
        """Whether the formulas of this file are those of these networks; a subclass may do what it likes."""
        model, stack = policy.model, critics.pair[0]
        if type(model) is not MLPModel or not isinstance(stack, Stacked) or type(policy.head) is not SquashedGaussian:
            return False
        known = model.dense.norms is None and model.dense.activation in ACTIVATIONS and stack.activation in ACTIVATIONS
        return known and by_hand(policy.head.linear.weight, model.arithmetic)

    # ------------------------------------------------------------ forwards

    @torch.no_grad()
    def look(self, now: Seen, later: Seen, all_rows: Tensor, noise: tuple[Tensor, ...], temperature: Tensor) -> Tensor:
        """Soft values by the target critics, of what the policy would do `later`: all rows but the first. `now`: the first ones.

        `noise`: of the later rows, and of those of now.
        """
        leaning = self._actor.forward(self._model.vector(all_rows.flatten(0, 1))).unflatten(0, all_rows.shape[:2])
        rows = [len(later.first), len(now.first)]
        self._leaned, self._noise = leaning[: rows[1]], noise[1]
        action, log_prob = self._head.squashed(torch.cat([leaning[1:], self._leaned]), torch.cat(noise))
        (following, self._sampled), (log_prob, self._log_prob) = (
            each.split(rows) for each in (action, log_prob + self._head.log_scale)
        )
        return soft_value(_values(self._slow, self._target, later, following), log_prob, temperature)

    @torch.no_grad()
    def taken(self, seen: Seen, action: Tensor) -> Tensor:
        """What both critics say of the actions that were taken, `[2, R, B]`."""
        return _values(self._pair, self._critics, seen, self._head.unit(action))

    @torch.no_grad()
    def weigh(self, now: Seen, temperature: Tensor) -> Weighed:
        """Soft values by the critics, of what the policy would do now."""
        self._weighed = _values(self._pair, self._critics, now, self._sampled)
        return Weighed(soft_value(self._weighed, self._log_prob, temperature), -self._log_prob)

    # ------------------------------------------------------------ backwards

    def learn_critics(self, slope: Tensor) -> None:
        """Add to the gradients of both. `slope`: the loss's derivative by what `taken` gave."""
        self._pair.backward(slope.view(2, -1))

    def learn_actor(self, share: Tensor, temperature: Tensor) -> None:
        """Add to the policy's gradient: of the mean soft value that `weigh` gave, downwards. `share`: of each row in it."""
        one, other = self._weighed
        equal, actions = (one == other) * 0.5, self._sampled.shape[-1]
        parts = torch.stack([(one < other) + equal, (other < one) + equal]) * -share
        by_action = self._pair.by_input(parts.view(2, -1), actions).view_as(self._sampled)
        by_leaning = self._head.slope(self._leaned, self._noise, self._sampled, (by_action, temperature * share))
        self._actor.backward(by_leaning.flatten(0, 1))


def _values(pair: dense.Twins, critics: Twins, seen: Seen, action: Tensor) -> Tensor:
    """`[2, R, B]`"""
    stack = critics.pair[0]
    assert critics.joined is not None
    assert isinstance(stack, Stacked)
    rows = stack.vector(critics.joined({OWN: seen.observation, ACTION: action}).flatten(0, 1))
    return pair.forward(rows).view(2, *seen.first.shape)


def _pair(critics: Twins) -> dense.Twins:
    stack = critics.pair[0]
    assert isinstance(stack, Stacked)

    def layers() -> list[Layer]:
        return [
            Layer(weight.data, bias.data, weight.grad, bias.grad)
            for weight, bias in zip(stack.weights, stack.biases, strict=True)
        ]

    return dense.Twins(layers, stack.weights[0], stack.activation)


def _of_policy(policy: SACPolicy) -> list[Layer]:
    assert isinstance(policy.model, MLPModel)
    linears = [*policy.model.dense.linears, policy.head.linear]
    found = []
    for linear in linears:
        assert isinstance(linear, nn.Linear)
        by_weight, by_bias = linear.weight.grad, linear.bias.grad
        assert by_weight is not None
        found.append(Layer(linear.weight.data.t(), linear.bias.data, by_weight.t(), by_bias))
    return found
