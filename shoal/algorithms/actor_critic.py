"""A policy with a value function: what PPO and its relatives train.

Acting needs the actor alone: values are computed by the trainer, over whole fragments and with the newest parameters, so no
actor pays for a critic that it does not use.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from shoal.api.env import AgentGroup
from shoal.api.policy import Decision, Policy, Request
from shoal.base.config import Named
from shoal.base.tree import Tree, tree_map
from shoal.models import build_model
from shoal.models.heads import build_head
from shoal.models.normaliser import ObservationNormaliser


@dataclass(frozen=True)
class Evaluation:
    """What the policy thinks, now, of decisions made earlier. All `[R, B]`."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class ActorCritic(Policy):
    """Observation -> features -> action distribution, and -> value. `first` and `state` as in Model."""

    extras = {"log_prob": ()}

    def __init__(
        self,
        group: AgentGroup,
        model: Named,
        *,
        shared: bool | None,
        normalise: bool,
        squash: bool,
        log_std: float = 0.0,
    ) -> None:
        super().__init__()
        space = group.observation_space
        self.normaliser = ObservationNormaliser(space) if normalise else None
        self.actor = build_model(model, space)
        self.head = build_head(group.action_space, self.actor.features, squash=squash, log_std=log_std)
        self.recurrent = self.actor.initial_state(1) is not None
        # Recurrent actor and critic share their memory: a critic of its own would have to be run while acting.
        self.shared = self.recurrent if shared is None else shared
        self.critic = None if self.shared else build_model(model, space)
        self.value = nn.Linear(self.actor.features, 1)
        nn.init.orthogonal_(self.value.weight, 1.0)
        nn.init.zeros_(self.value.bias)
        self.noise_size = self.head.noise_size

    def initial_state(self, batch: int) -> Tree | None:
        return self.actor.initial_state(batch)

    def act(self, request: Request, *, explore: bool) -> Decision:
        observation = self.normalised(tree_map(lambda t: t.unsqueeze(0), request.observation))
        features, state = self.actor(observation, request.state, request.first.unsqueeze(0))
        parameters = self.head(features[0])
        if not explore:
            return Decision(self.head.mode(parameters, request.action_mask), {}, state)
        action, log_prob = self.head.sample(parameters, request.noise, request.action_mask)
        return Decision(action, {"log_prob": log_prob}, state)

    def normalised(self, observation: Tree) -> Tree:
        """What the networks see."""
        return observation if self.normaliser is None else self.normaliser(observation)

    def values(self, observation: Tree, state: Tree | None, first: Tensor) -> Tensor:
        """Of normalised observations `[R, B, ...]` -> `[R, B]`."""
        features, _ = (self.critic or self.actor)(observation, state, first)
        return self.value(features).squeeze(-1)

    def evaluate(
        self, observation: Tree, state: Tree | None, first: Tensor, action: Tensor, mask: Tensor | None
    ) -> Evaluation:
        """Of normalised observations `[R, B, ...]` and the actions taken there."""
        features, _ = self.actor(observation, state, first)
        log_prob, entropy = self.head.evaluate(self.head(features), action, mask)
        judged = features if self.critic is None else self.critic(observation, state, first)[0]
        return Evaluation(log_prob, entropy, self.value(judged).squeeze(-1))
