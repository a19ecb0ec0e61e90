"""What novelty adds to a learner of action values: rewards, discounts and values by arm, and the losses beside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from shoal.algorithms.burn_in import state_behind
from shoal.algorithms.exploration.arms import discounts, weights
from shoal.algorithms.exploration.config import NoveltyConfig
from shoal.algorithms.exploration.curious import Curious
from shoal.algorithms.exploration.explorer import CuriousExplorer
from shoal.algorithms.exploration.heads import ArmValues
from shoal.algorithms.exploration.ladder import LadderExplorer
from shoal.algorithms.exploration.learning import intrinsic, relabelled, rewards
from shoal.api.algorithm import Learner, Task
from shoal.api.fragment import Fragment
from shoal.api.metric import Mean, Metric
from shoal.base.seeding import generator
from shoal.base.tree import tree_map
from shoal.models.heads.values import greedy, index_of

if TYPE_CHECKING:
    from shoal.algorithms.dqn.policy import QPolicy
    from shoal.algorithms.q_learning import QLearningConfig

NOTED: dict[str, tuple[int, ...]] = {"arm": (), "novelty": ()}
"""What lanes note of a decision."""


class Seeking:
    """One learner's novelty: its tables by arm, and what it makes of a batch."""

    def __init__(self, config: NoveltyConfig, task: Task) -> None:
        self._task = task
        self.use(config, ())

    def use(self, config: NoveltyConfig, policies: Iterable[QPolicy]) -> None:
        """Take settings over, from now on; weights are known to policies too, and travel with the version."""
        self._config = config
        self._weights = torch.tensor(weights(config.arms, config.weight))
        self._discounts = torch.tensor(discounts(config.arms, config.gamma, config.gamma_last))
        for policy in policies:
            assert policy.arms is not None
            policy.arms.weights.copy_(self._weights)

    def values(self, features: int, choices: int, *, dueling: bool) -> ArmValues:
        """The heads of a policy."""
        separate = self._config.heads == "separate"
        return ArmValues(features, choices, self._weights.tolist(), dueling=dueling, separate=separate)

    def networks(self, choices: int) -> Curious:
        """What a policy looks at observations with."""
        return Curious(self._config, self._task.group.observation_space, choices)

    def explorer(self, lanes: np.ndarray, width: int, ladder: LadderExplorer | None) -> CuriousExplorer:
        """For some lanes, whose embeddings have so many numbers."""
        return CuriousExplorer(self._config, lanes, width, seed=self._task.seed, ladder=ladder)

    # ------------------------------------------------------------ learning

    def prepared(self, batch: Fragment, update: int) -> Fragment:
        """Arms as whole numbers, some of them others than those that played, and what the decisions earned by them."""
        config, extras = self._config, batch.extras
        random = generator(self._task.seed, "relabel", 0, update)
        arm = relabelled(extras["arm"], config.arms, config.relabel, random)
        novelty = intrinsic(extras["novelty"], batch.terminated, batch.truncated)
        earned = rewards(batch.reward, novelty, arm, self._weights, separate=config.heads == "separate")
        return replace(batch, reward=earned, extras={**extras, "arm": arm, "intrinsic": novelty})

    def gamma(self, batch: Fragment) -> Tensor:
        """Discounts by arm, in the shape of the rewards or one axis less."""
        gamma = self._discounts[batch.extras["arm"]]
        return gamma.unsqueeze(-1) if batch.reward.ndim > 2 else gamma

    def judge(
        self, policy: QPolicy, target: QPolicy, batch: Fragment, settings: QLearningConfig
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Values of the actions taken, of the best that could follow, and which count: `[R, B]`, or `[R, B, 2]` by reward.

        Of the rows behind the burn-in, as all learners of action values judge.
        """
        behind = slice(settings.burn_in, None)
        arm, valid = batch.extras["arm"][behind], batch.valid[behind]
        mask = None if batch.action_mask is None else batch.action_mask[behind]
        online = self._parts(policy, batch, arm, settings.burn_in)
        with torch.no_grad():
            later = self._parts(target, batch, arm, settings.burn_in)
        assert policy.arms is not None
        best = greedy(policy.arms.blend(online.detach() if settings.double else later, arm), mask)
        taken = index_of(batch.action[behind], policy.start, online.shape[2])
        chosen, following = of_choice(online, taken), of_choice(later, best)
        if chosen.shape[-1] == 1:
            return chosen[..., 0], following[..., 0], valid
        return chosen, following, valid.unsqueeze(-1).expand_as(chosen)

    @staticmethod
    def _parts(policy: QPolicy, batch: Fragment, arm: Tensor, burn_in: int) -> Tensor:
        state = state_behind(policy, batch.observation, batch, burn_in)
        seen = tree_map(lambda t: t[burn_in:], batch.observation)
        return policy.parts(seen, state, batch.first[burn_in:], arm)[0]

    def beside(
        self, curious: Curious, batch: Fragment, learner: Learner, start: int
    ) -> tuple[Tensor, dict[str, Metric]]:
        """The losses of the networks that look, and what there is to tell."""
        loss, metrics = curious.loss(batch, learner, start)
        earned = batch.extras["intrinsic"][batch.valid]
        metrics["train/intrinsic_mean"] = Mean(float(earned.mean()) if len(earned) else 0.0)
        return loss, metrics


def of_choice(values: Tensor, index: Tensor) -> Tensor:
    """`[R, B, choices, parts]`, `[R, B]` -> `[R, B, parts]`."""
    place = index[..., None, None].expand(*index.shape, 1, values.shape[-1])
    return values.gather(2, place).squeeze(2)
