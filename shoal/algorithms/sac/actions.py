"""What differs between continuous and discrete actions: how the policy's actions are weighed by critics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete
from torch import Tensor
from torch.nn import functional

from shoal.algorithms.sac.critics import Twins
from shoal.algorithms.sac.losses import soft_value, soft_value_of_discrete
from shoal.algorithms.sac.policy import SACPolicy
from shoal.base.errors import InputError
from shoal.base.tree import Tree
from shoal.models.heads import Categorical, SquashedGaussian
from shoal.models.heads.head import legal
from shoal.models.heads.values import allowed, index_of

DISCRETE_SHARE = 0.5
"""Target entropy of discrete actions, as a share of that of all allowed ones alike."""


class Seen(NamedTuple):
    """Rows `[R, B, ...]` to weigh."""

    observation: Tree
    first: Tensor
    mask: Tensor | None


class Weighed(NamedTuple):
    """What the policy would do, `[R, B]` each."""

    value: Tensor
    """With what its entropy is worth."""
    entropy: Tensor
    """In nats; of continuous actions, its estimate from one action."""


class Actions(ABC):
    """One kind of action space. `target_entropy` is as the settings have it."""

    noise_size: int
    """Uniform numbers that `weigh` uses per row."""
    shown: Box | None
    """What critics are shown beside the observation."""
    outputs: int
    """Values that a critic gives."""

    def __init__(self, target_entropy: float | None) -> None:
        self.target_entropy = target_entropy

    @abstractmethod
    def weigh(self, policy: SACPolicy, critics: Twins, seen: Seen, noise: Tensor, temperature: Tensor) -> Weighed:
        """Soft values of the policy by the lesser critic, differentiable in the policy."""

    @abstractmethod
    def taken(self, policy: SACPolicy, critics: Twins, seen: Seen, action: Tensor) -> Tensor:
        """What both critics say of the actions that were taken, `[2, R, B]`."""

    @abstractmethod
    def goal(self, seen: Seen) -> float | Tensor:
        """Entropy to hold."""


class ContinuousActions(Actions):
    """A Box: one sampled action stands for all."""

    def __init__(self, space: Box, target_entropy: float | None) -> None:
        super().__init__(target_entropy)
        self.noise_size = math.prod(space.shape)
        self.shown, self.outputs = Box(-1.0, 1.0, (self.noise_size,), np.float32), 1

    def weigh(self, policy: SACPolicy, critics: Twins, seen: Seen, noise: Tensor, temperature: Tensor) -> Weighed:
        head = policy.head
        assert isinstance(head, SquashedGaussian)
        action, log_prob = head.squashed(policy.leaning(seen.observation, seen.first), noise)
        log_prob = log_prob + head.log_scale  # so that bounds do not change what the target entropy means
        values = critics(seen.observation, action, seen.first).squeeze(-1)
        return Weighed(soft_value(values, log_prob, temperature), -log_prob.detach())

    def taken(self, policy: SACPolicy, critics: Twins, seen: Seen, action: Tensor) -> Tensor:
        assert isinstance(policy.head, SquashedGaussian)
        values: Tensor = critics(seen.observation, policy.head.unit(action), seen.first)
        return values.squeeze(-1)

    def goal(self, seen: Seen) -> float | Tensor:
        return -float(self.noise_size) if self.target_entropy is None else self.target_entropy


class DiscreteActions(Actions):
    """A Discrete space: the expectation over all actions, without a sample."""

    noise_size = 0

    def __init__(self, space: Discrete, target_entropy: float | None) -> None:
        super().__init__(target_entropy)
        self.shown, self.outputs = None, int(space.n)

    def weigh(self, policy: SACPolicy, critics: Twins, seen: Seen, noise: Tensor, temperature: Tensor) -> Weighed:
        logits = policy.leaning(seen.observation, seen.first)
        log_probs = functional.log_softmax(legal(logits, allowed(seen.mask)), -1)
        values = critics(seen.observation, None, seen.first)
        value, entropy = soft_value_of_discrete(values, log_probs, temperature)
        return Weighed(value, entropy.detach())

    def taken(self, policy: SACPolicy, critics: Twins, seen: Seen, action: Tensor) -> Tensor:
        assert isinstance(policy.head, Categorical)
        index = index_of(action, policy.head.start, self.outputs).expand(2, *action.shape).unsqueeze(-1)
        return critics(seen.observation, None, seen.first).gather(-1, index).squeeze(-1)

    def goal(self, seen: Seen) -> float | Tensor:
        if self.target_entropy is not None:
            return self.target_entropy
        mask = allowed(seen.mask)
        return DISCRETE_SHARE * (math.log(self.outputs) if mask is None else mask.sum(-1).to(torch.float32).log())


def actions_of(space: Space[Any], target_entropy: float | None) -> Actions:
    """The kind that a space is of."""
    match space:
        case Discrete():
            return DiscreteActions(space, target_entropy)
        case Box() if np.issubdtype(space.dtype, np.floating) and space.is_bounded("both"):
            return ContinuousActions(space, target_entropy)
    raise InputError(
        f"algorithm.name = 'sac' needs bounded continuous actions or Discrete ones, not {space}: try ppo, or wrap the "
        "environment (env.wrappers) so that its action space is a bounded Box of floats or Discrete"
    )
