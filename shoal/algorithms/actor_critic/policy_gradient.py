"""What PPO and its relatives have in common: an actor-critic, one Adam, schedules, running statistics, and their state."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from shoal.algorithms.actor_critic.policy import ActorCritic
from shoal.algorithms.actor_critic.reward_scale import RewardScale
from shoal.algorithms.actor_critic.value_scale import ValueScale
from shoal.algorithms.learner import Adam
from shoal.algorithms.settings import (
    Live,
    check_schedules,
    live_settings,
    reconfigured,
    restored_settings,
    settings_state,
)
from shoal.algorithms.state import joined, part
from shoal.api.algorithm import Algorithm, Learner, Needs, Task, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Metric
from shoal.api.sight import Sight
from shoal.base.config import Config, Count, Named, Rate, Weight, value_at
from shoal.base.flat import Flat
from shoal.base.seeding import derive_seed


class PolicyGradientConfig(Config):
    """The settings that all of them have."""

    lr: Live[Rate] = 3e-4
    """Learning rate of Adam; a number, or `{start, end, steps}` to anneal it linearly."""
    unroll: Count = Field(128, ge=2)
    """Decisions per lane in one batch: the batch has `lanes x unroll` rows."""
    gamma: Live[float] = Field(0.99, ge=0, le=1)
    """Discount: how much a reward is worth one decision later."""
    lam: Live[float] = Field(0.95, ge=0, le=1)
    """Lambda of the returns: 0 trusts the value function, 1 trusts the rewards seen."""
    value_coef: Live[float] = Field(0.5, ge=0)
    """Weight of the value loss."""
    entropy: Live[Weight] = 0.0
    """Weight of the entropy bonus; a number or a schedule."""
    max_grad_norm: Live[float] = Field(0.5, gt=0)
    """Bound on the gradient's norm."""
    normalise_advantages: bool = True
    """Give the advantages zero mean and unit spread."""
    normalise_observations: bool = False
    """Give float observations zero mean and unit spread, by statistics saved with the policy."""
    normalise_rewards: bool = False
    """Divide rewards by the spread of their discounted sum, saved with the policy."""
    shared: bool | None = None
    """Actor and critic share one model; left out: where the model is recurrent or sees images."""
    critic: Literal["own", "central"] = "own"
    """What the value function sees: the agent's own observation, or the global state as well. Acting never needs the second."""
    agent_ids: bool = False
    """Tell actor and critic which of the policy's agents they speak of, as a one-hot."""
    squash: bool = False
    """Keep continuous actions inside their bounds by a tanh; otherwise the environment clips them."""
    log_std: float = Field(0.0, ge=-10, le=10)
    """Logarithm of the first spread of continuous actions."""


class PolicyGradient(Algorithm):
    """Owns an ActorCritic, one Adam and maybe a reward scale. A subclass says how a batch is learned from."""

    key_metrics: ClassVar[tuple[str, ...]] = (
        "approx_kl",
        "entropy_loss",
        "explained_variance",
        "policy_loss",
        "value_loss",
    )
    policy: ActorCritic

    def __init__(
        self, config: PolicyGradientConfig, model: Named, task: Task, needs: Needs,
        value_scale: ValueScale | None = None, *, tell_values: bool = False,
    ) -> None:  # fmt: skip
        central = config.critic == "central"
        self.settings, self.needs, self.task = config, replace(needs, global_state=central), task
        self._built, self._steps = config, 0
        check_schedules(config, task.horizon)
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        self.policy = ActorCritic(
            task.group, model, shared=config.shared, normalise=config.normalise_observations,
            squash=config.squash, log_std=config.log_std, sight=sight_of(config, task), tell_values=tell_values,
        )  # fmt: skip
        self.reward_scale = RewardScale(task.all_lanes or task.lanes) if config.normalise_rewards else None
        self.policy.add_module("reward_scale", self.reward_scale)
        self.value_scale = value_scale
        self.policy.add_module("value_scale", value_scale)
        self.flat = Flat(self.policy, gradients=True)
        self.optimiser = Adam(self.flat, lr=value_at(config.lr, 0, task.horizon), max_grad_norm=config.max_grad_norm)
        self.optimisers = (self.optimiser,)

    def update(self, batch: Fragment, learner: Learner) -> Update:
        self._steps = learner.steps
        self.optimiser.lr, entropy = self._now(self.settings.lr), self._now(self.settings.entropy)
        metrics = self._learn(batch, learner, entropy)
        metrics["train/learning_rate"] = Last(self.optimiser.lr)
        metrics["train/entropy_coef"] = Last(entropy)
        # Statistics change between versions, never inside one: decisions and their evaluation see the same.
        if self.policy.normaliser is not None:
            self.policy.normaliser.update(batch.observation, batch.valid, learner.mean)
        if self.reward_scale is not None:
            self.reward_scale.update(batch, learner.mean, gamma=self.settings.gamma)
        self.updates += 1
        return Update(metrics)

    @abstractmethod
    def _learn(self, batch: Fragment, learner: Learner, entropy: float) -> dict[str, Metric]:
        """Take the steps of one update. `entropy`: the weight of the bonus now."""

    def scaled_reward(self, batch: Fragment) -> Tensor:
        """What is learned from, `[R, B]`."""
        return batch.reward if self.reward_scale is None else self.reward_scale(batch.reward)

    # ------------------------------------------------------------ settings

    def reconfigure(self, changes: dict[str, Any]) -> dict[str, Any]:
        settings = reconfigured(self.settings, changes, {})
        check_schedules(settings, self.task.horizon)
        self._use(settings)
        own = {"lr": self.optimiser.lr, "max_grad_norm": self.optimiser.max_grad_norm}
        return {key: self._now(value) for key, value in live_settings(self.settings).items()} | own

    def _use(self, settings: PolicyGradientConfig) -> None:
        """From now on. Settings are read where they are used; what has them from elsewhere is told here."""
        self.settings = settings
        self.optimiser.lr, self.optimiser.max_grad_norm = self._now(settings.lr), settings.max_grad_norm

    def _now(self, setting: Any) -> Any:
        """A schedule's value at the last update."""
        return value_at(setting, self._steps, self.task.horizon)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Tensor]:
        state = joined({"policy": self.policy, "optimiser": self.optimiser})
        return {**state, "updates": torch.tensor(self.updates), **settings_state(self.settings, self._built)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(part(state, "policy."))
        self.optimiser.load_state_dict(part(state, "optimiser."))
        self.updates = int(state["updates"])
        self._use(restored_settings(self._built, state))


def sight_of(config: PolicyGradientConfig, task: Task) -> Sight:
    """What the lanes store."""
    agents = len(task.group.agents) if config.agent_ids else 0
    return Sight(task.group.observation_space, agents, task.state_space if config.critic == "central" else None)
