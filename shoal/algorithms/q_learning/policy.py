"""A policy by action values: the best action, or now and then any."""

from __future__ import annotations

import torch
from gymnasium.spaces import Discrete
from torch import Tensor

from shoal.api.policy import Decision, Model, Policy, Request
from shoal.base.tree import Tree, tree_map
from shoal.models.heads.values import DiscreteValues, epsilon_greedy, greedy, picked

VALUE, BEST = "value", "best"
"""What is stored: the value of the action that was taken, and of the best one."""


class QPolicy(Policy):
    """Observation -> features -> a value per action. `epsilon` is a buffer: set by the trainer, it travels with the version."""

    epsilon: Tensor
    noise_size = 2

    def __init__(self, space: Discrete, model: Model, *, dueling: bool, epsilon: float, notes: bool = False) -> None:
        """`notes`: with every decision, store what it and the best action are worth, for first priorities."""
        super().__init__()
        self.model, self._notes = model, notes
        self.extras: dict[str, tuple[int, ...]] = {VALUE: (), BEST: ()} if notes else {}
        self.head = DiscreteValues(model.features, int(space.n), dueling=dueling)
        self.start = int(space.start)
        self.register_buffer("epsilon", torch.tensor(epsilon))

    def initial_state(self, batch: int) -> Tree | None:
        return self.model.initial_state(batch)

    def values(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """Of observations `[R, B, ...]` -> `[R, B, actions]`, and the state after the last row."""
        features, state = self.model(observation, state, first)
        return self.head(features), state

    def act(self, request: Request, *, explore: bool) -> Decision:
        observation = tree_map(lambda t: t.unsqueeze(0), request.observation)
        values, state = self.values(observation, request.state, request.first.unsqueeze(0))
        mask = request.action_mask
        if not explore:
            return Decision(greedy(values[0], mask) + self.start, {}, state)
        rate = self.knob(request, "epsilon")
        index = epsilon_greedy(values[0], mask, request.noise, self.epsilon if rate is None else rate)
        if not self._notes:
            return Decision(index + self.start, {}, state)
        extras = {VALUE: picked(values[0], index), BEST: picked(values[0], greedy(values[0], mask))}
        return Decision(index + self.start, extras, state)

    def appraise(self, request: Request, action: Tensor) -> dict[str, Tensor]:
        """The values of the action and of the best one."""
        observation = tree_map(lambda t: t.unsqueeze(0), request.observation)
        values = self.values(observation, request.state, request.first.unsqueeze(0))[0][0]
        return {VALUE: picked(values, action - self.start), BEST: picked(values, greedy(values, request.action_mask))}
