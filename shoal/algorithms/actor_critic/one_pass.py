"""One pass over a batch in whole lanes: what IMPALA, A2C and A3C do alike.

Each part is run through the policy once. Values and log-probabilities of that one run give advantages and are learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor

from shoal.algorithms.actor_critic.descent import Loss, descend
from shoal.algorithms.actor_critic.minibatches import LaneMinibatches
from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient
from shoal.algorithms.actor_critic.replicas import normalised
from shoal.algorithms.losses import explained_variance, one_pass_losses
from shoal.algorithms.rows import places_of, taken
from shoal.api.algorithm import Learner, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Metric
from shoal.base.errors import InputError
from shoal.base.seeding import generator


class Advantages(NamedTuple):
    """Of every row, `[R, B]`."""

    advantage: Tensor
    """How much better the decision was than expected: what its log-probability is weighted with."""
    target: Tensor
    """What the value function should say."""
    means: dict[str, Tensor]
    """Metric -> numbers whose mean over the valid rows it is."""


AdvantageFunction = Callable[[Fragment, Tensor, Tensor], Advantages]
"""Batch, values, log-probabilities now minus those of the policy that acted -> advantages. Nothing has a gradient."""


class OnePass:
    """Fragments in, one step per part and its metrics out."""

    def __init__(self, owner: PolicyGradient, advantages: AdvantageFunction, parts: int = 1) -> None:
        self._owner, self._advantages, self._parts = owner, advantages, checked_parts(parts, owner.task)

    def learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        """All parts once. `entropy`: the weight of the bonus now."""
        losses = (self.loss(part, learner, entropy) for part in self._cut(batch))
        return descend(losses, self._owner.optimiser, learner).metrics()

    def _cut(self, batch: Fragment) -> Iterator[Fragment]:
        if self._parts == 1:
            return iter([batch])
        return LaneMinibatches(batch, self._parts).epoch(
            generator(self._owner.task.seed, "minibatches", self._owner.updates)
        )

    def loss(self, part: Fragment, learner: Learner, entropy_coef: float) -> Loss:
        """Of some lanes, by the parameters as they are."""
        policy, settings, valid = self._owner.policy, self._owner.settings, part.valid
        observation, places = policy.normalised(part.observation), places_of(valid)
        new = policy.evaluate(observation, part.state, part.first, part.action, part.action_mask)
        log_ratio, old_value = (new.log_prob - part.extras["log_prob"]).detach(), new.value.detach()
        advantage, target, means = self._advantages(part, old_value, log_ratio)
        if settings.normalise_advantages:
            advantage = normalised(advantage, places, learner.mean)
        if not len(places):
            return Loss.of_nothing()
        weighted, entropy = taken(new.log_prob * advantage, places), taken(new.entropy, places)
        value, old_value, target = (taken(each, places) for each in (new.value, old_value, target))
        policy_loss, error = self._owner.arithmetic.loss(one_pass_losses)(weighted, value, target, old_value)
        total = policy_loss + settings.value_coef * error - entropy_coef * entropy.mean()
        means = {name: taken(each, places) for name, each in means.items()}
        means["explained_variance"] = explained_variance(old_value, target)
        return Loss(total, policy_loss, error, entropy, taken(log_ratio, places), total.backward, means)


def checked_parts(parts: int, task: Task) -> int:
    """`parts`, if every replica of the trainer has a lane for each."""
    lanes = task.lanes // task.replicas
    if parts > lanes:
        raise InputError(f"algorithm.parts = {parts} is more than the {lanes} lanes of a trainer: try {lanes}")
    return parts
