"""A policy with a value function: what PPO and its relatives train.

Acting needs the actor alone: values are computed by the trainer, over whole fragments and with the newest parameters, so no
actor pays for a critic that it does not use.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shoal.algorithms.actor_critic.acting_kernel import DenseActor
from shoal.algorithms.actor_critic.value_scale import ValueScale
from shoal.algorithms.inputs import ACTOR, CRITIC, Inputs, central_section
from shoal.api.env import AgentGroup
from shoal.api.policy import Decision, Policy, Quick, Request
from shoal.api.sight import OWN, Sight
from shoal.base.arithmetic import by_hand
from shoal.base.config import Named
from shoal.base.tree import Tree, tree_map
from shoal.models import build_model
from shoal.models.heads import build_head
from shoal.models.heads.continuous import Gaussian
from shoal.models.heads.discrete import Categorical
from shoal.models.mlp import MLPModel
from shoal.models.normaliser import ObservationNormaliser


@dataclass(frozen=True)
class Evaluation:
    """What the policy thinks, now, of decisions made earlier. All `[R, B]`."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class ActorCritic(Policy):
    """Observation -> features -> action distribution, and -> value. `first` and `state` as in Model.

    `sight` says what observations are made up of; left out, they are those of the group. With `tell_values` decisions come
    with their values, where one network gives both and it costs nothing to say so.
    """

    value_scale: ValueScale | None
    """Set by an algorithm that learns values of unit scale."""

    def __init__(
        self,
        group: AgentGroup,
        model: Named,
        *,
        shared: bool | None,
        normalise: bool,
        squash: bool,
        log_std: float = 0.0,
        sight: Sight | None = None,
        tell_values: bool = False,
    ) -> None:
        super().__init__()
        sight = sight or Sight(group.observation_space)
        self.agents, self.central = sight.agents, sight.state is not None
        self.inputs = None if sight.plain else Inputs(sight)
        space = sight.own if self.inputs is None else self.inputs.actor.space
        self.normaliser = ObservationNormaliser(sight.stored) if normalise else None
        self.actor = build_model(model, space)
        self.head = build_head(group.action_space, self.actor.features, squash=squash, log_std=log_std)
        self.recurrent = self.actor.initial_state(1) is not None
        # Recurrent actor and critic share their memory: a critic of its own would have to be run while acting.
        self.shared = self.recurrent or self.actor.costly if shared is None else shared
        self.critic = None if self.shared else build_model(model, space)
        width = self.actor.features
        if self.inputs is not None and self.inputs.critic is not None:
            seen = self.inputs.critic.space
            self.critic = build_model(central_section(model, seen, recurrent=self.recurrent), seen)
            width = self.critic.features + (width if self.shared else 0)
        self.value = nn.Linear(width, 1)
        nn.init.orthogonal_(self.value.weight, 1.0)
        nn.init.zeros_(self.value.bias)
        self.noise_size = self.head.noise_size
        self.tells_values = tell_values and self.critic is None and not self.recurrent
        own = self.normaliser is None and not self.agents and not self.tells_values
        self._by_hand = own and DenseActor.suits(self.actor, self.head)
        self._quick: DenseActor | None = None
        self.extras = {"log_prob": (), "value": ()} if self.tells_values else {"log_prob": ()}
        self.register_module("value_scale", None)

    def initial_state(self, batch: int) -> Tree | None:
        return self.actor.initial_state(batch)

    def quick(self) -> Quick | None:
        """A small network of dense layers with Discrete or Gaussian actions decides by hand."""
        if not self._by_hand or not by_hand(self.value.weight, self.actor.arithmetic):
            return None
        if self._quick is None or not self._quick.current:
            assert isinstance(self.actor, MLPModel)
            assert isinstance(self.head, Categorical | Gaussian)
            self._quick = DenseActor(self.actor, self.head)
        return self._quick

    def act(self, request: Request, *, explore: bool) -> Decision:
        observation = self._policy_input(tree_map(lambda t: t.unsqueeze(0), request.observation))
        features, state = self.actor(observation, request.state, request.first.unsqueeze(0))
        parameters = self.head(features[0])
        if not explore:
            return Decision(self.head.mode(parameters, request.action_mask), {}, state)
        action, log_prob = self.head.sample(parameters, request.noise, request.action_mask)
        extras = {"log_prob": log_prob}
        if self.tells_values:
            extras["value"] = self.value(features[0]).squeeze(-1)
        return Decision(action, extras, state)

    def appraise(self, request: Request, action: Tensor) -> dict[str, Tensor]:
        """Its log-probability, and what the critic expects of the rewards as they are learned from."""
        stored = self.normalised(tree_map(lambda t: t.unsqueeze(0), request.observation))
        mask = None if request.action_mask is None else request.action_mask.unsqueeze(0)
        said = self.evaluate(stored, request.state, request.first.unsqueeze(0), action.unsqueeze(0), mask)
        value = said.value if self.value_scale is None else self.value_scale.restored(said.value)
        return {"value": value[0], "log_prob": said.log_prob[0]}

    def normalised(self, observation: Tree) -> Tree:
        """What the networks see, of what was stored."""
        scaled = observation if self.normaliser is None else self.normaliser(observation)
        return scaled if self.inputs is None else self.inputs(scaled)

    def _policy_input(self, observation: Tree) -> Tree:
        """What the actor sees, of what a request holds."""
        if self.inputs is None:
            return self.normalised(observation)
        stored = observation if self.agents else {OWN: observation}
        return self.inputs.actor(stored if self.normaliser is None else self.normaliser(stored))

    def split(self, observation: Tree) -> tuple[Tree, Tree]:
        """The actor's and the critic's part of normalised observations."""
        return (observation[ACTOR], observation[CRITIC]) if self.central else (observation, observation)

    def values(self, observation: Tree, state: Tree | None, first: Tensor) -> Tensor:
        """Of normalised observations `[R, B, ...]` -> `[R, B]`."""
        actors, critics = self.split(observation)
        features = self.actor(actors, state, first)[0] if self.shared else None
        return self._critic_values(features, critics, state, first)

    def _critic_values(self, features: Tensor | None, observation: Tree, state: Tree | None, first: Tensor) -> Tensor:
        """`features`: the actor's, where they are shared. A central critic sees them beside its own."""
        if self.critic is not None:
            own = self.critic(observation, state, first)[0]
            features = torch.cat([own, features], -1) if self.shared and features is not None else own
        return self.value(features).squeeze(-1)

    def evaluate(
        self, observation: Tree, state: Tree | None, first: Tensor, action: Tensor, mask: Tensor | None
    ) -> Evaluation:
        """Of normalised observations `[R, B, ...]` and the actions taken there."""
        actors, critics = self.split(observation)
        features, _ = self.actor(actors, state, first)
        log_prob, entropy = self.head.evaluate(self.head(features), action, mask)
        return Evaluation(log_prob, entropy, self._critic_values(features, critics, state, first))
