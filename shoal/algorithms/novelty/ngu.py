"""Never give up (Badia et al. 2020): Q-learning by arms that want novelty more or less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from shoal.algorithms.learner import number
from shoal.algorithms.novelty.arms import discounts, weights
from shoal.algorithms.novelty.config import NGUConfig, NoveltyConfig
from shoal.algorithms.novelty.curious import Curious
from shoal.algorithms.novelty.explorer import CuriousExplorer
from shoal.algorithms.novelty.heads import ArmValues
from shoal.algorithms.novelty.learning import intrinsic, of_action, relabelled, rewards
from shoal.algorithms.novelty.policy import NoveltyPolicy
from shoal.algorithms.q_learning.burn_in import state_behind
from shoal.algorithms.q_learning.dqn import DQN
from shoal.algorithms.q_learning.q_learning import (
    ActionValues,
    QLearning,
    QLearningConfig,
    discrete_space,
    stored_extras,
)
from shoal.algorithms.q_learning.replayed import replay_of
from shoal.algorithms.rows import places_of, taken
from shoal.api.algorithm import Algorithm, Learner, Needs, Task
from shoal.api.explorer import Explorer
from shoal.api.fragment import Fragment
from shoal.api.metric import Mean, Metric
from shoal.base.config import Named
from shoal.base.seeding import derive_seed, generator
from shoal.base.tree import tree_map
from shoal.models import build_model
from shoal.models.heads.values import greedy, index_of

STORED: dict[str, tuple[int, ...]] = {"arm": (), "novelty": ()}
"""What lanes store of a decision."""


class NGU(QLearning):
    """DQN whose lanes play arms. What an arm earns is the reward and its weight times novelty, discounted in a way of its own."""

    Config = NGUConfig
    key_metrics = (*QLearning.key_metrics, "intrinsic_mean")
    policy: NoveltyPolicy
    settings: NGUConfig

    def __init__(self, config: NGUConfig, model: Named, task: Task) -> None:
        needs = Needs(
            config.unroll, bootstrap=config.n_step + 1, burn_in=config.burn_in,
            replay=replay_of(config, task.horizon), stored_extras={**(stored_extras(config) or {}), **STORED},
        )  # fmt: skip
        super().__init__(config, task, needs)
        self._tabulate()
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        self._own(self._policy(config, model))
        self.policy.knobs = (*self.policy.knobs, "arm")

    def _policy(self, config: NGUConfig, model: Named) -> NoveltyPolicy:
        space, seen = discrete_space(self.task.group, config.name), self.task.group.observation_space
        body, count = build_model(model, seen), int(space.n)
        arms = ArmValues(
            body.features, count, self._weights.tolist(), dueling=config.dueling, separate=self._separate
        )  # fmt: skip
        return NoveltyPolicy(space, body, arms, Curious(self.novelty, seen, count), epsilon=self.rate(0))

    @property
    def novelty(self) -> NoveltyConfig:
        """Its settings."""
        assert self.settings.novelty is not None, "without novelty it is DQN"
        return self.settings.novelty

    @property
    def _separate(self) -> bool:
        return self.novelty.heads == "separate"

    @property
    def epsilon(self) -> Tensor:
        return self.policy.epsilon

    def explorer(self, lanes: np.ndarray) -> Explorer | None:
        width, ladder = self.policy.curious.embedding.width, self._ladder(lanes)
        return CuriousExplorer(self.novelty, lanes, width, seed=self.task.seed, ladder=ladder)

    # ------------------------------------------------------------ settings

    def _fixed(self) -> dict[str, str]:
        return {**super()._fixed(), "gamma": "novelty.gamma takes its place, change that"}

    def _use(self, settings: QLearningConfig) -> None:
        """Weights of arms are buffers too, so that they travel with the version."""
        super()._use(settings)
        self._tabulate()
        for policy in (self.policy, self.target.module):
            policy.arms.weights.copy_(self._weights)

    def _tabulate(self) -> None:
        """Weights and discounts by arm."""
        config = self.novelty
        self._weights = torch.tensor(weights(config.arms, config.weight), device=self.device)
        self._discounts = torch.tensor(discounts(config.arms, config.gamma, config.gamma_last), device=self.device)

    def moved(self) -> None:
        self._tabulate()

    # ------------------------------------------------------------ learning

    def _prepared(self, batch: Fragment) -> Fragment:
        """Arms as whole numbers, some of them others than those that played, and what the decisions earned by them."""
        config, extras = self.novelty, batch.extras
        random = generator(self.task.seed, "relabel", 0, self.updates)
        arm = relabelled(extras["arm"], config.arms, config.relabel, random)
        novelty = intrinsic(extras["novelty"], batch.terminated, batch.truncated)
        earned = rewards(batch.reward, novelty, arm, self._weights, separate=self._separate)
        return replace(batch, reward=earned, extras={**extras, "arm": arm, "intrinsic": novelty})

    def _gamma(self, batch: Fragment) -> float | Tensor:
        """Discounts by arm, in the shape of the rewards or one axis less."""
        gamma = self._discounts[batch.extras["arm"]]
        return gamma.unsqueeze(-1) if batch.reward.ndim > 2 else gamma

    def _evaluate(self, batch: Fragment) -> ActionValues:
        """`[R, B]`, or `[R, B, 2]` by reward."""
        arm, valid = batch.extras["arm"][self.behind], batch.valid[self.behind]
        mask = None if batch.action_mask is None else batch.action_mask[self.behind]
        online = self._parts(self.policy, batch, arm)
        with torch.no_grad():
            later = self._parts(self.target.module, batch, arm)
        best = greedy(self.policy.arms.blend(online.detach() if self.settings.double else later, arm), mask)
        taken = index_of(batch.action[self.behind], self.policy.start, online.shape[2])
        chosen, following = of_action(online, taken), of_action(later, best)
        if chosen.shape[-1] == 1:
            return ActionValues(chosen[..., 0], following[..., 0], valid)
        return ActionValues(chosen, following, valid.unsqueeze(-1).expand_as(chosen))

    def _parts(self, policy: NoveltyPolicy, batch: Fragment, arm: Tensor) -> Tensor:
        state = state_behind(policy, batch.observation, batch, self.settings.burn_in)
        seen = tree_map(lambda t: t[self.behind], batch.observation)
        return policy.parts(seen, state, batch.first[self.behind], arm)[0]

    def _beside(self, batch: Fragment, learner: Learner) -> tuple[Tensor | None, dict[str, Metric]]:
        """The losses of the networks for novelty, and what there is to tell."""
        loss, metrics = self.policy.curious.loss(batch, learner, self.policy.start)
        earned = taken(batch.extras["intrinsic"], places_of(batch.valid))
        metrics["train/intrinsic_mean"] = Mean(number(earned.mean()) if len(earned) else 0.0)
        return loss, metrics


class DQNOrNGU(Algorithm):
    """What `name: dqn` stands for: NGU where the settings have a section `novelty`, plain DQN where they do not."""

    Config = NGUConfig
    key_metrics = NGU.key_metrics

    def __new__(cls, config: NGUConfig, model: Named, task: Task) -> Algorithm:  # type: ignore[misc]
        return DQN(config, model, task) if config.novelty is None else NGU(config, model, task)
