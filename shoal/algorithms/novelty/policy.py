"""The policy of NGU: action values by arm, and networks that say how new what it sees is."""

from __future__ import annotations

import torch
from gymnasium.spaces import Discrete
from torch import Tensor

from shoal.algorithms.novelty.curious import Curious
from shoal.algorithms.novelty.heads import ArmValues
from shoal.algorithms.q_learning.policy import BEST, VALUE
from shoal.api.policy import Decision, Model, Policy, Request
from shoal.base.tree import Tree, tree_map
from shoal.models.heads.values import epsilon_greedy, greedy, picked


class NoveltyPolicy(Policy):
    """Observation -> features -> a value per arm and action. `epsilon` is a buffer: it travels with the version."""

    epsilon: Tensor
    noise_size = 2

    def __init__(self, space: Discrete, model: Model, arms: ArmValues, curious: Curious, *, epsilon: float) -> None:
        super().__init__()
        self.model, self.arms, self.curious = model, arms, curious
        self.extras = curious.extras
        self.start = int(space.start)
        self.register_buffer("epsilon", torch.tensor(epsilon))

    def initial_state(self, batch: int) -> Tree | None:
        return self.model.initial_state(batch)

    def values(
        self, observation: Tree, state: Tree | None, first: Tensor, arm: Tensor | None = None
    ) -> tuple[Tensor, Tree | None]:
        """Of observations `[R, B, ...]` -> `[R, B, actions]`, and the state after the last row. `arm`: `[R, B]`, or arm 0."""
        arm = torch.zeros_like(first, dtype=torch.int64) if arm is None else arm
        parts, state = self.parts(observation, state, first, arm)
        return self.arms.blend(parts, arm), state

    def parts(self, observation: Tree, state: Tree | None, first: Tensor, arm: Tensor) -> tuple[Tensor, Tree | None]:
        """Values by reward: `[R, B, actions, parts]`."""
        features, state = self.model(observation, state, first)
        return self.arms(features, arm), state

    def act(self, request: Request, *, explore: bool) -> Decision:
        observation = tree_map(lambda t: t.unsqueeze(0), request.observation)
        arm = self.knob(request, "arm") if explore else None
        of_arm = None if arm is None else arm.long().unsqueeze(0)
        values, state = self.values(observation, request.state, request.first.unsqueeze(0), of_arm)
        if not explore:
            return Decision(greedy(values[0], request.action_mask) + self.start, {}, state)
        rate = self.knob(request, "epsilon")
        index = epsilon_greedy(
            values[0], request.action_mask, request.noise, self.epsilon if rate is None else rate
        )  # fmt: skip
        return Decision(index + self.start, {} if arm is None else self.curious.look(request.observation), state)

    def appraise(self, request: Request, action: Tensor) -> dict[str, Tensor]:
        """The values of the action and of the best one, of arm 0."""
        observation = tree_map(lambda t: t.unsqueeze(0), request.observation)
        values = self.values(observation, request.state, request.first.unsqueeze(0))[0][0]
        return {VALUE: picked(values, action - self.start), BEST: picked(values, greedy(values, request.action_mask))}
