"""DQN (Mnih et al. 2015) with double Q-learning, dueling values and n-step targets: replayed sequences in, better versions out."""

from __future__ import annotations

import torch
from torch import Tensor

from shoal.algorithms.dqn.config import DQNConfig
from shoal.algorithms.dqn.policy import QPolicy
from shoal.algorithms.q_learning import Judged, QLearning, choices_of, noted_of
from shoal.algorithms.replayed import replay_of
from shoal.api.algorithm import Needs, Task
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.base.seeding import derive_seed
from shoal.models import build_model
from shoal.models.heads.values import greedy


class DQN(QLearning):
    """Every lane is an agent of its own, all with the same values."""

    Config = DQNConfig
    policy: QPolicy

    def __init__(self, config: DQNConfig, model: Named, task: Task) -> None:
        needs = Needs(
            config.unroll, bootstrap=config.n_step, burn_in=config.burn_in, replay=replay_of(config, task.horizon),
            noted=noted_of(config),
        )  # fmt: skip
        super().__init__(config, task, needs)
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        choices, body = choices_of(task.group, config.name), build_model(model, task.group.observation_space)
        self._own(QPolicy(choices, body, dueling=config.dueling, epsilon=self.rate(0)))

    @property
    def epsilon(self) -> Tensor:
        return self.policy.epsilon

    def _judge(self, batch: Fragment) -> Judged:
        online, target = self._values(batch.observation, batch)
        mask = None if batch.action_mask is None else batch.action_mask[self.behind]
        best = greedy(online.detach() if self.settings.double else target, mask)
        chosen = picked(online, batch.action[self.behind] - self.policy.start)
        return Judged(chosen, picked(target, best), batch.valid[self.behind])


def picked(values: Tensor, index: Tensor) -> Tensor:
    """`[..., choices]`, `[...]` -> `[...]`."""
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)
