"""QMIX (Rashid et al. 2018), VDN (Sunehag et al. 2018), independent learners: replayed teams in, better versions out."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from shoal.algorithms.q_learning.q_learning import (
    ActionValues,
    QLearning,
    QLearningConfig,
    discrete_space,
    stored_extras,
)
from shoal.algorithms.q_learning.replayed import replay_of
from shoal.algorithms.q_learning.team_policy import TeamPolicy
from shoal.api.algorithm import Needs, Task, TeamReward
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.base.seeding import derive_seed
from shoal.models import build_model
from shoal.models.heads.values import greedy, index_of, picked
from shoal.models.layers import Width
from shoal.models.mixers import Monotonic, Sum


class QMIXConfig(QLearningConfig):
    """Q-learning for teams: every agent values its own actions, a mixer makes them the value of all."""

    name: Literal["qmix"] = "qmix"
    mixer: Literal["qmix", "vdn", "none"] = "qmix"
    """`qmix`: by a monotonic network that sees the global state. `vdn`: their sum. `none`: every agent learns on its own."""
    reward: TeamReward = "sum"
    """What the team earns: the sum of its agents' rewards, their mean, or the first one's (where all earn the same)."""
    agent_ids: bool = True
    """Tell agents apart: their numbers join the model's features, in one more dense layer."""
    embedding: Width = 32
    """Width of the mixer's inner layer."""
    hyper: list[Width] = [64]
    """Layers of the networks that give the mixer its weights."""


class QMIX(QLearning):
    """A lane is a team. Utilities of its agents, mixed into one value, follow the team's reward."""

    Config = QMIXConfig
    policy: TeamPolicy
    settings: QMIXConfig

    def __init__(self, config: QMIXConfig, model: Named, task: Task) -> None:
        needs = Needs(
            config.unroll, bootstrap=config.n_step, burn_in=config.burn_in, lane="env", team_reward=config.reward,
            replay=replay_of(config, task.horizon), stored_extras=stored_extras(config),
        )  # fmt: skip
        super().__init__(config, task, needs)
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        space = task.group.observation_space
        actions, body = discrete_space(task.group, config.name), build_model(model, space)
        policy = TeamPolicy(
            actions, body, len(task.group.agents), self._mixer(task), dueling=config.dueling,
            agent_ids=config.agent_ids, epsilon=self.rate(0),
        )  # fmt: skip
        self._own(policy)

    def _mixer(self, task: Task) -> nn.Module | None:
        if self.settings.mixer != "qmix":
            return Sum() if self.settings.mixer == "vdn" else None
        assert task.state_space is not None, "a team sees the global state"
        width = math.prod(task.state_space.shape or ())
        return Monotonic(len(task.group.agents), width, embedding=self.settings.embedding, hidden=self.settings.hyper)

    @property
    def epsilon(self) -> Tensor:
        return self.policy.epsilon

    def _evaluate(self, batch: Fragment) -> ActionValues:
        online, target = self._values(batch.observation["agents"], batch)
        acting, state = batch.observation["acting"][self.behind].bool(), batch.observation["state"][self.behind]
        mask = self.policy.by_agent(None if batch.action_mask is None else batch.action_mask[self.behind])
        valid = batch.valid[self.behind]
        best = greedy(online.detach() if self.settings.double else target, mask)
        # Who does not act adds nothing, whatever it would think of its actions.
        chosen = picked(online, index_of(batch.action[self.behind], self.policy.start, online.shape[-1])) * acting
        following = picked(target, best) * acting
        if self.policy.mixer is None:
            return ActionValues(chosen, following, valid.unsqueeze(-1) & acting)
        with torch.no_grad():
            following = self.target.module.mixer(following, state)
        return ActionValues(self.policy.mixer(chosen, state), following, valid)
