"""Several passes over a batch with its advantages by the clipped surrogate (Schulman et al. 2017): what PPO and APPO do alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from shoal.algorithms.actor_critic.descent import Loss, descend
from shoal.algorithms.actor_critic.minibatches import (
    Experience,
    LaneMinibatches,
    Minibatches,
    RowMinibatches,
    count_minibatches,
    part_sizes,
    pieces,
)
from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient
from shoal.algorithms.actor_critic.ppo_kernel import PPOKernel, Rows
from shoal.algorithms.learner import number
from shoal.algorithms.losses import clipped_losses, explained_variance
from shoal.algorithms.rows import places_of, taken
from shoal.algorithms.settings import Live
from shoal.api.algorithm import Learner
from shoal.api.env import Array
from shoal.api.metric import Mean, Metric
from shoal.base.config import Config, Count
from shoal.base.seeding import Generators

PIECE = 128
"""Rows of a costly model that go forwards and backwards at a time: what lies between the layers stays in the cache. With the
network of Mnih et al. (2015) a row takes 0.84 ms, where 256 at a time take 0.92."""


class ClippedConfig(Config):
    """How the passes are taken."""

    epochs: Live[Count] = Field(4, ge=1)
    """Passes over each batch. On a CPU 1 to 2 is often faster in wall time."""
    minibatch: Count = Field(256, ge=2)
    """Rows per parameter change, over all replicas of the trainer. The batch is cut into equal parts of about this size;
    recurrent models take whole lanes."""
    clip: Live[float] = Field(0.2, gt=0)
    """How far the new policy may move from the one that acted, as a probability ratio."""
    value_clip: Live[float | None] = Field(None, gt=0)
    """How far a value may move in one update before its loss stops falling; left out: freely."""
    target_kl: Live[float | None] = Field(None, gt=0)
    """Stop the passes once the policy has moved 1.5 times this far from the one that acted."""


class ClippedPasses:
    """Experience with advantages in, steps of the optimiser and their metrics out."""

    def __init__(self, owner: PolicyGradient) -> None:
        self._owner = owner
        policy = self._policy = owner.policy
        unroll, minibatch = owner.needs.unroll, self.config.minibatch
        self._count, owner.notes = count_minibatches(minibatch, unroll, owner.task, recurrent=policy.recurrent)
        self._orders = Generators(owner.task.seed, "minibatches")
        self.kernel: PPOKernel | None = None
        self.choose()

    @property
    def config(self) -> ClippedConfig:
        """The owner's settings, as they are now."""
        settings = self._owner.settings
        assert isinstance(settings, ClippedConfig)
        return settings

    def choose(self) -> None:
        """The way to compute the loss that the settings, as they are now, allow."""
        policy, config = self._policy, self.config
        # How far the policy has moved must be known before a step that depends on it.
        self._piecewise = policy.actor.costly and not policy.recurrent and config.target_kl is None
        if config.value_clip is not None or not PPOKernel.suits(policy):
            self.kernel = None
        elif self.kernel is None:
            self.kernel = PPOKernel(policy)

    def learn(self, experience: Experience, learner: Learner, entropy: float) -> dict[str, Metric]:
        """All passes. `entropy`: the weight of the bonus now."""
        if self.kernel is not None and experience.action_mask is None:
            losses = self._losses_by_hand(self.kernel, experience, entropy)
        else:
            losses = (self.loss(part, entropy) for part in self._passes(experience))
        descent = descend(losses, self._owner.optimiser, learner, target_kl=self.config.target_kl)
        metrics = descent.metrics(self.config.clip)
        if experience.rows:
            assert experience.places is not None, "a whole batch knows its rows"
            known = [taken(each, experience.places) for each in (experience.value, experience.target)]
            metrics["train/explained_variance"] = Mean(number(explained_variance(*known)))
        return metrics

    def _passes(self, experience: Experience) -> Iterator[Experience]:
        kind = LaneMinibatches if self._policy.recurrent else RowMinibatches
        parts: Minibatches[Experience] = kind(experience, self._count)
        for epoch in range(self.config.epochs):
            yield from parts.epoch(self._order(epoch))

    def _order(self, epoch: int) -> np.random.Generator:
        return self._orders.at(self._owner.updates, epoch)

    def loss(self, part: Experience, entropy_coef: float) -> Loss:
        """Of one minibatch, by the parameters as they are."""
        if not part.rows:
            return Loss.of_nothing()
        if self.kernel is not None and part.action_mask is None:
            return self._loss_by_hand(self.kernel, self._rows(part), entropy_coef)
        if self._piecewise and part.valid is None and part.rows > PIECE:
            return self._loss_in_pieces(part, entropy_coef)
        return self._loss(part, entropy_coef)

    def _loss(self, part: Experience, entropy_coef: float) -> Loss:
        new = self._policy.evaluate(part.observation, part.state, part.first, part.action, part.action_mask)
        places = None if part.valid is None else places_of(part.valid)
        pick = (lambda x: x) if places is None else (lambda x: taken(x, places))
        log_ratio = pick(new.log_prob - part.log_prob)
        advantage, target, old_value = (pick(each) for each in (part.advantage, part.target, part.value))
        losses, config = self._owner.arithmetic.loss(clipped_losses), self.config
        policy, value = losses(log_ratio, advantage, pick(new.value), target, old_value, config.clip, config.value_clip)
        entropy = pick(new.entropy)
        total = policy + self._owner.settings.value_coef * value
        if entropy_coef:
            total = total - entropy_coef * entropy.mean()
        return Loss(total, policy, value, entropy, log_ratio, total.backward)

    def _loss_in_pieces(self, part: Experience, entropy_coef: float) -> Loss:
        """Computed in `backward`, piece by piece; its numbers are there afterwards."""
        rows = part.rows

        def backward() -> None:
            found = []
            for piece in pieces(part, PIECE):
                each = self._loss(piece, entropy_coef)
                (each.total * (piece.rows / rows)).backward()  # type: ignore[union-attr]
                found.append((piece.rows / rows, each.detached()))
            for name in ("total", "policy", "value"):
                setattr(whole, name, sum(share * number(getattr(each, name)) for share, each in found))
            whole.entropy = torch.cat([each.entropy for _, each in found], 1)
            whole.log_ratio = torch.cat([each.log_ratio for _, each in found], 1)

        none_yet = torch.zeros(1, rows, device=part.action.device)
        whole = Loss(0.0, 0.0, 0.0, none_yet, none_yet, backward)
        return whole

    # ------------------------------------------------------------ the same numbers without autograd

    def _losses_by_hand(self, kernel: PPOKernel, experience: Experience, entropy_coef: float) -> Iterator[Loss]:
        rows = self._rows(experience)
        sizes = part_sizes(len(rows.action), self._count)
        for epoch in range(self.config.epochs):
            for part in rows.shuffled(self._order(epoch), sizes):
                yield self._loss_by_hand(kernel, part, entropy_coef) if len(part.action) else Loss.of_nothing()

    def _rows(self, experience: Experience) -> Rows:
        """Those that count, as arrays."""
        keep = None if experience.valid is None else np.flatnonzero(experience.valid.numpy())

        def column(tensor: Tensor) -> Array:
            rows = tensor.flatten(0, 1).numpy()
            return rows if keep is None else rows.take(keep, 0)

        seen, critic = self._policy.split(experience.observation)
        observation = column(seen.flatten(2))
        wide = observation if critic is seen else column(critic.flatten(2))
        rest = (experience.action, experience.log_prob, experience.advantage, experience.target)
        return Rows(observation, wide, *(column(each) for each in rest))

    def _loss_by_hand(self, kernel: PPOKernel, rows: Rows, entropy_coef: float) -> Loss:
        value_coef = self._owner.settings.value_coef
        computed = kernel.loss(rows, clip=self.config.clip, value_coef=value_coef, entropy_coef=entropy_coef)
        total = computed.policy + value_coef * computed.value
        if entropy_coef:
            total -= entropy_coef * float(computed.entropy.mean())
        entropy, log_ratio = torch.from_numpy(computed.entropy), torch.from_numpy(computed.log_ratio)
        return Loss(total, computed.policy, computed.value, entropy, log_ratio, partial(kernel.backward, computed))
