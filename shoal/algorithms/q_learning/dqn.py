"""DQN (Mnih et al. 2015) with double Q-learning, dueling values and n-step targets: replayed sequences in, better versions out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from shoal.algorithms.kernels.mlp import Scratch
from shoal.algorithms.q_learning.policy import BEST, VALUE, QPolicy
from shoal.algorithms.q_learning.priorities import priorities_of
from shoal.algorithms.q_learning.q_learning import (
    ActionValues,
    QLearning,
    QLearningConfig,
    discrete_space,
    stored_extras,
)
from shoal.algorithms.q_learning.replayed import replay_of
from shoal.algorithms.q_learning.value_kernel import KnownLoss, ValueKernel
from shoal.api.algorithm import Differentiable, Needs, Task
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.base.seeding import derive_seed
from shoal.base.tree import Tree, tree_map
from shoal.models import build_model
from shoal.models.heads.values import greedy, index_of, picked


class DQNConfig(QLearningConfig):
    """Deep Q-learning: action values from replay, with a target network. Several agents learn independently of each other."""

    name: Literal["dqn"] = "dqn"


class DQN(QLearning):
    """Every lane is an agent of its own, all with the same values."""

    Config = DQNConfig
    policy: QPolicy
    settings: DQNConfig

    def __init__(self, config: DQNConfig, model: Named, task: Task) -> None:
        extras = stored_extras(config)
        if extras is not None and config.prioritised is not None:
            extras = {**extras, VALUE: (), BEST: ()}
        needs = Needs(
            config.unroll, bootstrap=config.n_step, burn_in=config.burn_in,
            replay=replay_of(config, task.horizon, first=True), stored_extras=extras,
        )  # fmt: skip
        super().__init__(config, task, needs)
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        body, space = build_model(model, task.group.observation_space), discrete_space(task.group, config.name)
        notes = config.prioritised is not None
        self._own(QPolicy(space, body, dueling=config.dueling, epsilon=self.rate(0), notes=notes))
        self._by_hand = self._kernels()

    def moved(self) -> None:
        self._by_hand = self._kernels()

    def _kernels(self) -> tuple[ValueKernel, ValueKernel] | None:
        """Of the policy and of its target, where the network is a small one of dense layers."""
        scratch, pairs = Scratch(), [(each.model, each.head) for each in (self.policy, self.target.module)]
        made = [ValueKernel(model, head, scratch) for model, head in pairs if ValueKernel.suits(model, head)]
        return (made[0], made[1]) if made else None

    def _values(self, observation: Tree, batch: Fragment) -> tuple[Tensor, Tensor]:
        if self._by_hand is None:
            return self._apart(observation, batch) if batch.state is None else super()._values(observation, batch)
        online, target = self._by_hand
        return online.values(observation[self.behind]), target.values(observation[self.behind])

    def _apart(self, observation: Tree, batch: Fragment) -> tuple[Tensor, Tensor]:
        """Without memory rows stand alone: only those to learn from get a graph, and what no target looks at is left out, as 0."""
        seen = self.policy.model.prepared(tree_map(lambda t: t[self.behind], observation))
        first = batch.first[self.behind]
        # where targets look further than one step, a lane that is cut off in the last rows has one row more to learn from
        most = self.settings.unroll + (self.settings.n_step > 1)
        learned, later = slice(None, most), slice(most, None)

        def values(policy: QPolicy, rows: slice) -> Tensor:
            return policy.values(tree_map(lambda t: t[rows], seen), None, first[rows])[0]

        with torch.no_grad():
            target = values(self.target.module, slice(1, None))
            rest = (
                values(self.policy, later) if self.settings.double else torch.zeros_like(target[-len(first[later]) :])
            )
        online = values(self.policy, learned)  # last: what it keeps for the gradient is in the cache
        return torch.cat([online, rest]), torch.cat([torch.zeros_like(target[:1]), target])

    def _descent(
        self, loss: Tensor, batch: Fragment, action_values: ActionValues, slope: Callable[[], Tensor]
    ) -> Tensor | Differentiable:
        if self._by_hand is None:
            return loss
        online, taken = self._by_hand[0], batch.action[self.behind] - self.policy.start
        return KnownLoss(lambda: online.backward(taken, action_values.counts, slope()))

    @property
    def epsilon(self) -> Tensor:
        return self.policy.epsilon

    def prepare(self, fragment: Fragment) -> Fragment:
        """First priorities (Horgan et al. 2018): errors by what the actor thought its actions, and the best ones, were worth.

        What nobody decided on has no such value: rows whose target needs one are left out.
        """
        prioritised = self.settings.prioritised
        if prioritised is None:
            return fragment
        batch = fragment.map(torch.from_numpy)
        chosen, valid = batch.extras[VALUE][self.behind], batch.valid[self.behind]
        best = batch.extras[BEST].masked_fill(batch.version < 0, torch.nan)[self.behind]
        errors = chosen - self.targets(batch, ActionValues(chosen, best, valid))
        known = valid & ~errors.isnan()
        priority = priorities_of(errors[known], known, prioritised.eta).masked_fill(~known.any(0), torch.nan)
        return replace(fragment, priority=priority.numpy())

    def _evaluate(self, batch: Fragment) -> ActionValues:
        online, target = self._values(batch.observation, batch)
        mask = None if batch.action_mask is None else batch.action_mask[self.behind]
        best = greedy(online.detach() if self.settings.double else target, mask)
        chosen = picked(online, index_of(batch.action[self.behind], self.policy.start, online.shape[-1]))
        return ActionValues(chosen, picked(target, best), batch.valid[self.behind])
