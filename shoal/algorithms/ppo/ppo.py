"""PPO (Schulman et al. 2017): batches of fresh fragments in, better versions out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from shoal.algorithms.actor_critic import ActorCritic
from shoal.algorithms.kernels.ppo import PPOKernel
from shoal.algorithms.learner import Adam
from shoal.algorithms.losses import approximate_kl, clipped_policy_loss, explained_variance, value_loss
from shoal.algorithms.ppo.config import PPOConfig, check_schedules, count_minibatches
from shoal.algorithms.ppo.minibatches import Experience, LaneMinibatches, Minibatches, RowMinibatches
from shoal.algorithms.returns import gae
from shoal.algorithms.reward_scale import RewardScale
from shoal.api.algorithm import Algorithm, Learner, Needs, Task, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Mean, Metric
from shoal.base.config import Named, value_at
from shoal.base.flat import Flat
from shoal.base.seeding import derive_seed, generator


@dataclass
class Loss:
    """One minibatch: what is minimised, and the parts that become metrics."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    """Per row."""
    log_ratio: Tensor
    """Per row."""
    backward: Callable[[], None]
    """Write the gradient of `total`."""

    @classmethod
    def of_nothing(cls) -> Loss:
        """No rows, no gradient."""
        zero, none = torch.zeros(()), torch.zeros(0)
        return cls(zero, zero, zero, none, none, lambda: None)

    @property
    def rows(self) -> int:
        """How many rows the means are over."""
        return self.log_ratio.numel()

    def detached(self) -> Loss:
        """Without the graph behind it, so that the graph's memory is free for the next minibatch."""
        kept = {name: getattr(self, name).detach() for name in ("total", "policy", "value", "entropy", "log_ratio")}
        return Loss(**kept, backward=_spent)


def _spent() -> None:
    raise RuntimeError("the graph of this loss is gone")


class PPO(Algorithm):
    """Owns an ActorCritic, one Adam and, if asked, a reward scale."""

    Config = PPOConfig
    policy: ActorCritic

    def __init__(self, config: PPOConfig, model: Named, task: Task) -> None:
        self.config, self._task = config, task
        self.needs = Needs(unroll=config.unroll, bootstrap=1, max_lag=0)
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        self.policy = ActorCritic(
            task.group, model, shared=config.shared, normalise=config.normalise_observations,
            squash=config.squash, log_std=config.log_std,
        )  # fmt: skip
        self.reward_scale = RewardScale(config.gamma, task.lanes) if config.normalise_rewards else None
        self.policy.add_module("reward_scale", self.reward_scale)
        self._parts = count_minibatches(config, task.lanes, recurrent=self.policy.recurrent, replicas=task.replicas)
        check_schedules(config, task.horizon)
        self.flat = Flat(self.policy, gradients=True)
        self.optimiser = Adam(self.flat, lr=value_at(config.lr, 0, task.horizon), max_grad_norm=config.max_grad_norm)
        by_hand = config.value_clip is None and PPOKernel.suits(self.policy)
        self._kernel = PPOKernel(self.policy) if by_hand else None
        self._updates = 0

    def update(self, batch: Fragment, learner: Learner) -> Update:
        self.optimiser.lr = value_at(self.config.lr, learner.steps, self._task.horizon)
        entropy = value_at(self.config.entropy, learner.steps, self._task.horizon)
        experience = self._judge(batch, learner)
        metrics = self._learn(experience, learner, entropy)
        if experience.rows:
            metrics["train/explained_variance"] = Mean(self._explained(experience))
        metrics["train/learning_rate"] = Last(self.optimiser.lr)
        metrics["train/entropy_coef"] = Last(entropy)
        # Statistics change between versions, never inside one: decisions and their evaluation see the same.
        if self.policy.normaliser is not None:
            self.policy.normaliser.update(batch.observation, batch.valid, learner.mean)
        if self.reward_scale is not None:
            self.reward_scale.update(batch, learner.mean)
        self._updates += 1
        return Update(metrics)

    # ------------------------------------------------------------ before the passes

    @torch.no_grad()
    def _judge(self, batch: Fragment, learner: Learner) -> Experience:
        """Values of all rows by the newest parameters, then advantages and targets."""
        observation = self.policy.normalised(batch.observation)
        value = self.policy.values(observation, batch.state, batch.first)
        reward = batch.reward if self.reward_scale is None else self.reward_scale(batch.reward)
        advantage = gae(
            reward, value, batch.terminated, batch.truncated, batch.valid, gamma=self.config.gamma, lam=self.config.lam
        )
        target = advantage + value
        if self.config.normalise_advantages:
            advantage = normalised(advantage, batch.valid, learner)
        return Experience(
            observation, batch.action, batch.extras["log_prob"], advantage, target, value,
            batch.first, batch.action_mask, batch.state, batch.valid,
        )  # fmt: skip

    # ------------------------------------------------------------ the passes

    def _learn(self, experience: Experience, learner: Learner, entropy: float) -> dict[str, Metric]:
        kind = LaneMinibatches if self.policy.recurrent else RowMinibatches
        parts: Minibatches = kind(experience, self._parts)
        losses, norms = [], []
        for part in self._passes(parts):
            loss = self._loss(part, entropy)
            if self.config.target_kl and _kl(loss, learner) > 1.5 * self.config.target_kl:
                break
            # Nobody skips a step: the replicas of this trainer that have rows wait for those that have none.
            norm = learner.step(loss, self.optimiser, loss.rows)
            if loss.rows:
                norms.append(norm)
                losses.append(loss.detached())
        return self._metrics(losses, norms)

    def _passes(self, parts: Minibatches) -> Iterator[Experience]:
        for epoch in range(self.config.epochs):
            yield from parts.epoch(generator(self._task.seed, "minibatches", self._updates, epoch))

    def _loss(self, part: Experience, entropy_coef: float) -> Loss:
        if not part.rows:
            return Loss.of_nothing()
        if self._kernel is not None and part.action_mask is None:
            return self._loss_by_hand(self._kernel, part, entropy_coef)
        new = self.policy.evaluate(part.observation, part.state, part.first, part.action, part.action_mask)
        pick = (lambda x: x) if part.valid is None else (lambda x: x[part.valid])
        log_ratio = pick(new.log_prob - part.log_prob)
        policy = clipped_policy_loss(log_ratio.exp(), pick(part.advantage), self.config.clip).mean()
        value = value_loss(pick(new.value), pick(part.target), pick(part.value), self.config.value_clip)
        entropy = pick(new.entropy)
        total = policy + self.config.value_coef * value
        if entropy_coef:
            total = total - entropy_coef * entropy.mean()
        return Loss(total, policy, value, entropy, log_ratio, total.backward)

    def _loss_by_hand(self, kernel: PPOKernel, part: Experience, entropy_coef: float) -> Loss:
        """The same numbers without autograd."""
        config = self.config
        columns = (part.observation, part.action, part.log_prob, part.advantage, part.target)
        judged = kernel.judge(
            *(column[0] for column in columns),
            clip=config.clip,
            value_coef=config.value_coef,
            entropy_coef=entropy_coef,
        )
        total = judged.policy + config.value_coef * judged.value
        if entropy_coef:
            total = total - entropy_coef * judged.entropy.mean()
        backward = partial(kernel.backward, judged)
        return Loss(total, judged.policy, judged.value, judged.entropy, judged.log_ratio, backward)

    @torch.no_grad()
    def _metrics(self, losses: list[Loss], norms: list[float]) -> dict[str, Metric]:
        """Over all minibatches at once: small operations per minibatch would cost as much as the learning."""
        count = len(losses)
        if count == 0:
            return {"train/minibatches": Mean(0)}
        log_ratio = torch.cat([loss.log_ratio.flatten() for loss in losses])
        ratio = log_ratio.exp()
        means = {
            "policy_loss": torch.stack([loss.policy for loss in losses]),
            "value_loss": torch.stack([loss.value for loss in losses]),
            "loss": torch.stack([loss.total for loss in losses]),
            "entropy_loss": -torch.cat([loss.entropy.flatten() for loss in losses]),
            "approx_kl": approximate_kl(log_ratio, ratio),
            "clip_fraction": ((ratio - 1.0).abs() > self.config.clip).float(),
        }
        metrics: dict[str, Metric] = {f"train/{name}": Mean(float(x.mean()), count) for name, x in means.items()}
        metrics["train/grad_norm"] = Mean(sum(norms) / count, count)
        metrics["train/minibatches"] = Mean(count)
        return metrics

    @staticmethod
    def _explained(experience: Experience) -> float:
        valid = experience.valid
        return float(explained_variance(experience.value[valid], experience.target[valid]))

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Tensor]:
        state = {f"policy.{name}": value for name, value in self.policy.state_dict().items()}
        state |= {f"optimiser.{name}": value for name, value in self.optimiser.state_dict().items()}
        state["updates"] = torch.tensor(self._updates)
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(part(state, "policy."))
        self.optimiser.load_state_dict(part(state, "optimiser."))
        self._updates = int(state["updates"])


@torch.no_grad()
def _kl(loss: Loss, learner: Learner) -> float:
    (kl,) = over_replicas([approximate_kl(loss.log_ratio, loss.log_ratio.exp())], learner)
    return float(kl)


def over_replicas(columns: list[Tensor], learner: Learner) -> Tensor:
    """The means of columns of equal length `[N]` over the rows of all replicas. Sums travel, since replicas differ in rows."""
    sums = torch.stack([torch.tensor(float(len(columns[0]))), *(column.sum() for column in columns)])
    count, *totals = learner.mean(sums)
    return torch.stack(totals) / count


def normalised(advantage: Tensor, valid: Tensor, learner: Learner) -> Tensor:
    """Zero mean and unit spread over the valid rows of all replicas."""
    rows = advantage[valid]
    mean, square = over_replicas([rows, rows.square()], learner)
    return (advantage - mean) / ((square - mean.square()).clamp(min=0.0).sqrt() + 1e-8)


def part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The entries under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
