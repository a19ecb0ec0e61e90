"""A team's policy: one network that values the actions of each agent, and the mixer that goes with it."""

from __future__ import annotations

import torch
from gymnasium.spaces import Discrete
from torch import Tensor, nn

from shoal.api.policy import Decision, Model, Policy, Request
from shoal.base.tree import Tree, tree_map
from shoal.models.heads.values import DiscreteValues, epsilon_greedy, greedy, picked
from shoal.models.layers import Dense


class TeamPolicy(Policy):
    """Agents act on their own observations. The mixer is only learned with: it travels along, so that a version is whole."""

    epsilon: Tensor
    extras: dict[str, tuple[int, ...]] = {}

    def __init__(
        self, space: Discrete, model: Model, agents: int, mixer: nn.Module | None, *,
        dueling: bool, agent_ids: bool, epsilon: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.agents, self.start, self.noise_size = agents, int(space.start), 2 * agents
        self.model, self.mixer = model, mixer
        self.ids = Dense(model.features + agents, [model.features], "relu") if agent_ids else None
        self.head = DiscreteValues(model.features, int(space.n), dueling=dueling)
        self.register_buffer("epsilon", torch.tensor(epsilon))

    def initial_state(self, batch: int) -> Tree | None:
        return tree_map(lambda t: t.unflatten(0, (batch, self.agents)), self.model.initial_state(batch * self.agents))

    def values(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """Of the agents' observations `[R, B, A, ...]` -> `[R, B, A, actions]`, and the state after the last row."""
        agents = tree_map(lambda t: t.flatten(1, 2), observation)
        state = tree_map(lambda t: t.flatten(0, 1), state)
        features, state = self.model(agents, state, first.repeat_interleave(self.agents, 1))
        features = features.unflatten(1, (-1, self.agents))
        if self.ids is not None:
            ids = torch.eye(self.agents, device=features.device).expand(*features.shape[:3], self.agents)
            features = self.ids(torch.cat([features, ids], -1))
        return self.head(features), tree_map(lambda t: t.unflatten(0, (-1, self.agents)), state)

    def act(self, request: Request, *, explore: bool) -> Decision:
        agents = tree_map(lambda t: t.unsqueeze(0), request.observation["agents"])
        values, state = self.values(agents, request.state, request.first.unsqueeze(0))
        mask, noise = self.by_agent(request.action_mask), request.noise.unflatten(-1, (self.agents, 2))
        if not explore:
            return Decision(greedy(values[0], mask) + self.start, {}, state)
        rate = self.knob(request, "epsilon")
        index = epsilon_greedy(values[0], mask, noise, self.epsilon if rate is None else rate.unsqueeze(-1))
        return Decision(index + self.start, {}, state)

    def appraise(self, request: Request, action: Tensor) -> dict[str, Tensor]:
        """What each agent's own network says of its action, `[B, A]`; the mixer is the trainer's."""
        agents = tree_map(lambda t: t.unsqueeze(0), request.observation["agents"])
        values = self.values(agents, request.state, request.first.unsqueeze(0))[0][0]
        return {"value": picked(values, action - self.start)}

    def by_agent(self, mask: Tensor | None) -> Tensor | None:
        """`[..., A * actions]` -> `[..., A, actions]`."""
        return None if mask is None else mask.unflatten(-1, (self.agents, -1))
