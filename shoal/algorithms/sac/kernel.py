"""SAC with numbers as actions and dense networks, without autograd around them: values out, gradients back by hand.

The gradient of the lesser of two values goes to one critic alone, so each critic goes back through its own rows, not through all.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

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
    """Legal order: `valued`; `taken`, then `learn_critics`; `weigh`, then `learn_actor`. Rows are `[R, B]`."""

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
    def valued(self, seen: Seen, noise: Tensor, temperature: Tensor) -> Tensor:
        """Soft values by the target critics, of what the policy would do."""
        action, log_prob = self._sample(self._leaning(seen), noise)
        return soft_value(_values(self._slow, self._target, seen, action), log_prob, temperature)

    @torch.no_grad()
    def taken(self, seen: Seen, action: Tensor) -> Tensor:
        """What both critics say of the actions that were taken, `[2, R, B]`."""
        return _values(self._pair, self._critics, seen, self._head.unit(action))

    @torch.no_grad()
    def weigh(self, seen: Seen, noise: Tensor, temperature: Tensor) -> Weighed:
        """Soft values by the critics, of what the policy would do."""
        self._noise, self._leaned = noise, self._leaning(seen)
        self._sampled, log_prob = self._sample(self._leaned, noise)
        self._weighed = _values(self._pair, self._critics, seen, self._sampled)
        return Weighed(soft_value(self._weighed, log_prob, temperature), -log_prob)

    def _leaning(self, seen: Seen) -> Tensor:
        """The head's parameters, `[R, B, 2K]`."""
        return self._actor.forward(self._model.vector(seen.observation.flatten(0, 1))).unflatten(0, seen.first.shape)

    def _sample(self, leaning: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        action, log_prob = self._head.squashed(leaning, noise)
        return action, log_prob + self._head.log_scale

    # ------------------------------------------------------------ backwards

    def learn_critics(self, slope: Tensor) -> None:
        """Add to the gradients of both. `slope`: the loss's derivative by what `taken` gave."""
        for critic, own in zip(self._pair, slope, strict=True):
            critic.backward(own.view(-1, 1))

    def learn_actor(self, share: Tensor, temperature: Tensor) -> None:
        """Add to the policy's gradient: of the mean soft value that `weigh` gave, downwards. `share`: of each row in it."""
        one, other = self._weighed
        equal, actions = (one == other) * 0.5, self._sampled.shape[-1]
        parts = [(-share * part).view(-1, 1) for part in ((one < other) + equal, (other < one) + equal)]
        ups = [critic.by_input(up, critic.width - actions) for critic, up in zip(self._pair, parts, strict=True)]
        upstream = (torch.add(*ups).view_as(self._sampled), temperature * share)
        by_leaning = self._head.slope(self._leaned, self._noise, self._sampled, upstream)
        self._actor.backward(by_leaning.flatten(0, 1))


def _values(pair: tuple[Dense, Dense], critics: Twins, seen: Seen, action: Tensor) -> Tensor:
    """`[2, R, B]`"""
    stack = critics.pair[0]
    assert critics.joined is not None
    assert isinstance(stack, Stacked)
    rows = stack.vector(critics.joined({OWN: seen.observation, ACTION: action}).flatten(0, 1))
    return torch.stack([critic.forward(rows) for critic in pair]).view(2, *seen.first.shape)


def _pair(critics: Twins) -> tuple[Dense, Dense]:
    stack = critics.pair[0]
    assert isinstance(stack, Stacked)

    def layers(twin: int) -> Callable[[], list[Layer]]:
        return lambda: [
            Layer(weight.data[twin], bias.data[twin, 0], _grad(weight, twin), _grad(bias, twin, 0))
            for weight, bias in zip(stack.weights, stack.biases, strict=True)
        ]

    first = stack.weights[0]
    return Dense(layers(0), first, stack.activation), Dense(layers(1), first, stack.activation)


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


def _grad(parameter: Tensor, *at: int) -> Tensor | None:
    """Where a part of its gradient goes; None: a target does not learn."""
    return None if parameter.grad is None else parameter.grad[at]
