"""SAC's policy: all that acting needs, and nothing that only learning does."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space
from torch import Tensor

from shoal.api.policy import Decision, Model, Policy, Request
from shoal.base.tree import Tree, tree_map
from shoal.models.heads import SquashedGaussian, build_head
from shoal.models.heads.values import allowed


class SACPolicy(Policy):
    """Observation -> features -> a squashed Gaussian, or a probability per action.

    `uniform` is a buffer: true until the trainer has learned something, it travels with the version.
    """

    uniform: Tensor
    extras: dict[str, tuple[int, ...]] = {}

    def __init__(self, space: Space[Any], model: Model, *, hold: int = 1) -> None:
        super().__init__()
        self.model, self.noise_hold = model, hold
        self.head = build_head(space, model.features, squash=True)
        self.noise_size = self.head.noise_size
        self.register_buffer("uniform", torch.tensor(True))

    def initial_state(self, batch: int) -> None:
        return None

    def leaning(self, observation: Tree, first: Tensor) -> Tensor:
        """The head's parameters for observations `[R, B, ...]`."""
        features, _ = self.model(observation, None, first)
        return self.head(features)

    def act(self, request: Request, *, explore: bool) -> Decision:
        mask, noise = allowed(request.action_mask), request.noise
        if explore and bool(self.uniform):
            return Decision(self._anything(noise, mask), {})
        observation = tree_map(lambda t: t.unsqueeze(0), request.observation)
        leaning = self.leaning(observation, request.first.unsqueeze(0))[0]
        return Decision(self.head.sample(leaning, noise, mask)[0] if explore else self.head.mode(leaning, mask), {})

    def appraise(self, request: Request, action: Tensor) -> dict[str, Tensor]:
        """The log-probability of its action; values are the critics', which stay with the trainer."""
        observation = tree_map(lambda t: t.unsqueeze(0), request.observation)
        leaning = self.leaning(observation, request.first.unsqueeze(0))[0]
        return {"log_prob": self.head.evaluate(leaning, action, allowed(request.action_mask))[0]}

    def _anything(self, noise: Tensor, mask: Tensor | None) -> Tensor:
        """Every action alike."""
        head = self.head
        if isinstance(head, SquashedGaussian):
            return head.within(2 * noise - 1)
        return head.sample(noise.new_zeros(len(noise), head.linear.out_features), noise, mask)[0]
