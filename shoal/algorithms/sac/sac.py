"""SAC (Haarnoja et al. 2018a, 2018b; Christodoulou 2019 for Discrete actions): replayed sequences in, better versions out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shoal.algorithms.learner import Adam, number
from shoal.algorithms.q_learning.priorities import priorities_of
from shoal.algorithms.q_learning.replayed import replay_of
from shoal.algorithms.q_learning.target import Target
from shoal.algorithms.q_learning.value_kernel import KnownLoss
from shoal.algorithms.returns import n_step
from shoal.algorithms.rows import places_of, taken
from shoal.algorithms.sac.actions import Seen, Weighed, actions_of
from shoal.algorithms.sac.config import SACConfig
from shoal.algorithms.sac.critics import Twins
from shoal.algorithms.sac.kernel import SACKernel
from shoal.algorithms.sac.losses import critic_loss, temperature_loss
from shoal.algorithms.sac.policy import SACPolicy
from shoal.algorithms.sac.temperature import Temperature
from shoal.algorithms.settings import check_schedules, live_settings, reconfigured, restored_settings, settings_state
from shoal.algorithms.state import joined, part
from shoal.api.algorithm import Algorithm, Learner, Needs, Task, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Mean, Metric
from shoal.base.config import Named, value_at
from shoal.base.device import CPU, on_cpu
from shoal.base.errors import InputError
from shoal.base.flat import Flat
from shoal.base.seeding import derive_seed, generator
from shoal.base.transfer import to_device
from shoal.base.tree import tree_map
from shoal.models import build_model


@dataclass
class Rows:
    """The rows of a batch that may count: `[T, B]` each."""

    seen: Seen
    valid: Tensor
    share: Tensor
    """In the mean over rows that count; 0 where a row does not."""
    count: int


class SAC(Algorithm):
    """Every lane is an agent of its own. Published is the actor alone; critics, targets and temperature stay with the trainer."""

    Config = SACConfig
    key_metrics = ("td_error", "entropy", "temperature", "q_mean", "policy_loss", "critic_loss")
    policy: SACPolicy

    def __init__(self, config: SACConfig, model: Named, task: Task) -> None:
        check_schedules(config, task.horizon)
        self.settings, self.task = config, task
        self._built, self._steps = config, 0
        self.needs = Needs(config.unroll, bootstrap=config.n_step, replay=replay_of(config, task.horizon))
        space, seen = task.group.action_space, task.group.observation_space
        self.actions = actions_of(space, config.target_entropy)
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        body = build_model(model, seen)
        if body.initial_state(1) is not None:
            raise InputError(
                f"algorithm.name = 'sac' does not support recurrent models (model.name = '{model.name}'): try mlp, or ppo"
            )
        self.policy = SACPolicy(space, body, hold=config.hold_noise)
        self.critics = Twins(model, seen, self.actions.shown, self.actions.outputs)
        self.temperature = Temperature(config.temperature)
        self.flat = Flat(self.policy, gradients=True)
        self.actor, self.critic = self._adam(self.flat), self._adam(Flat(self.critics, gradients=True))
        self.heat = self._adam(Flat(self.temperature, gradients=True))
        self.optimisers = (
            (self.actor, self.critic, self.heat) if config.learn_temperature else (self.actor, self.critic)
        )
        self.target = Target(self.critics, self.critic.flat)
        self.moved()

    def moved(self) -> None:
        suits = SACKernel.suits(self.policy, self.critics)
        self._by_hand = SACKernel(self.policy, self.critics, self.target.module) if suits else None

    def _adam(self, flat: Flat) -> Adam:
        return Adam(flat, lr=0.0, max_grad_norm=self.settings.max_grad_norm)

    # ------------------------------------------------------------ update

    def update(self, batch: Fragment, learner: Learner) -> Update:
        self._steps = learner.steps
        self._set_rates()
        self.policy.uniform.fill_(False)
        rows, later = self.rows(batch), self._seen(batch, slice(1, None))
        noise = noise_later, noise_now = self.noise(later, rows.seen)
        if self._by_hand is None:
            following = self.following(later, noise_later)
        else:
            following = self._by_hand.look(rows.seen, later, batch.observation, noise, self.temperature.value)
        target = self.targets(batch, following)[: len(rows.valid)]
        values, metrics = self._update_critics(batch, rows, target, learner)
        weighed = self._update_actor(rows, noise_now, learner, metrics)
        if self.settings.learn_temperature:
            excess = ((weighed.entropy - self.actions.goal(rows.seen)) * rows.share).sum()
            learner.step(temperature_loss(self.temperature.log, excess), self.heat, rows.count)
        self.updates += 1
        self.target.follow(self.updates, every=1, tau=self.settings.tau)
        errors = (values - target).abs().mean(0)
        metrics |= self._metrics(rows, errors, values.mean(0), target, weighed.entropy)
        if self.settings.prioritised is None or batch.weights is None:
            return Update(metrics)
        metrics["train/weight_mean"] = Mean(number((rows.share * batch.weights).sum()))
        return Update(
            metrics, priorities_of(taken(errors, places_of(rows.valid)), rows.valid, self.settings.prioritised.eta)
        )

    def _set_rates(self) -> None:
        config = self.settings
        self.actor.lr = self.heat.lr = self._now(config.lr)
        self.critic.lr = self._now(config.lr if config.critic_lr is None else config.critic_lr)

    def rows(self, batch: Fragment) -> Rows:
        """All but the last, of n-step targets all but the last n - 1: none of those counts."""
        rows = slice(0, len(batch.valid) - max(self.settings.n_step - 1, 1))
        valid = batch.valid[rows]
        count = int(valid.sum())
        return Rows(self._seen(batch, rows), valid, valid / max(count, 1), count)

    @staticmethod
    def _seen(batch: Fragment, rows: slice) -> Seen:
        mask = None if batch.action_mask is None else batch.action_mask[rows]
        return Seen(tree_map(lambda t: t[rows], batch.observation), batch.first[rows], mask)

    def noise(self, *parts: Seen) -> tuple[Tensor, ...]:
        """Uniform numbers of this update: a resumed run goes on with those that the unbroken one would have drawn."""
        draw, size = generator(self.task.seed, "actions to weigh", counter=self.updates).random, self.actions.noise_size
        drawn = tuple(torch.from_numpy(draw((*seen.first.shape, size), np.float32)) for seen in parts)
        return drawn if self.device.type == CPU else to_device(drawn, self.device)

    @torch.no_grad()
    def following(self, later: Seen, noise: Tensor) -> Tensor:
        """Soft values by the target critics, `[R - 1, B]`. `later`: all rows but the first, which follows nothing."""
        return self.actions.weigh(self.policy, self.target.module, later, noise, self.temperature.value).value

    @torch.no_grad()
    def targets(self, batch: Fragment, following: Tensor) -> Tensor:
        """What the values should be, `[R, B]`."""
        value = torch.cat([torch.zeros_like(following[:1]), following])
        config = self.settings
        return n_step(batch.reward, value, batch.terminated, batch.truncated, gamma=config.gamma, steps=config.n_step)

    def _update_critics(
        self, batch: Fragment, rows: Rows, target: Tensor, learner: Learner
    ) -> tuple[Tensor, dict[str, Metric]]:
        """One step of the critics; what they said before it, `[2, T, B]`."""
        action, by_hand = batch.action[: len(rows.valid)], self._by_hand
        share = rows.share if batch.weights is None else rows.share * batch.weights
        if by_hand is None:
            values = self.actions.taken(self.policy, self.critics, rows.seen, action)
        else:
            values = by_hand.taken(rows.seen, action)
        errors = values - target
        loss = self.arithmetic.loss(critic_loss)(errors, share)
        own = loss if by_hand is None else KnownLoss(lambda: by_hand.learn_critics(errors * share))
        norm = learner.step(own, self.critic, rows.count)
        return values.detach(), {"train/critic_loss": Mean(number(loss.detach())), "train/critic_grad_norm": Mean(norm)}

    def _update_actor(self, rows: Rows, noise: Tensor, learner: Learner, metrics: dict[str, Metric]) -> Weighed:
        """One step of the actor, by the critics as they are now."""
        temperature, by_hand = self.temperature.value, self._by_hand
        if by_hand is None:
            with frozen(self.critics):
                weighed = self.actions.weigh(self.policy, self.critics, rows.seen, noise, temperature)
        else:
            weighed = by_hand.weigh(rows.seen, temperature)
        loss = -(weighed.value * rows.share).sum()
        own = loss if by_hand is None else KnownLoss(lambda: by_hand.learn_actor(rows.share, temperature))
        norm = learner.step(own, self.actor, rows.count)
        metrics |= {"train/policy_loss": Mean(number(loss.detach())), "train/policy_grad_norm": Mean(norm)}
        return weighed

    def _metrics(
        self, rows: Rows, errors: Tensor, values: Tensor, target: Tensor, entropy: Tensor
    ) -> dict[str, Metric]:
        sums = [(x * rows.share).sum() for x in (errors, values, target, entropy)]
        told = torch.stack([*sums, self.temperature.value])
        *means, temperature = told.tolist() if on_cpu(told) else map(number, told)
        names = ("train/td_error", "train/q_mean", "train/target_mean", "train/entropy")
        metrics: dict[str, Metric] = {name: Mean(mean) for name, mean in zip(names, means, strict=True)}
        return metrics | {"train/temperature": Last(temperature), "train/learning_rate": Last(self.actor.lr)}

    # ------------------------------------------------------------ settings

    def reconfigure(self, changes: dict[str, Any]) -> dict[str, Any]:
        settings = reconfigured(self.settings, changes, self._fixed())
        check_schedules(settings, self.task.horizon)
        self._use(settings)
        if "temperature" in changes:
            self.temperature.set(settings.temperature)
        return self._in_use()

    def _fixed(self) -> dict[str, str]:
        """Keys that may not change in this run, and what to do instead."""
        return {"temperature": "it is learned, change target_entropy"} if self.settings.learn_temperature else {}

    def _use(self, settings: SACConfig) -> None:
        """From now on. Settings are read where they are used; what has them from elsewhere is told here."""
        self.settings, self.actions.target_entropy = settings, settings.target_entropy
        for optimiser in (self.actor, self.critic, self.heat):
            optimiser.max_grad_norm = settings.max_grad_norm
        self._set_rates()

    def _in_use(self) -> dict[str, Any]:
        live, fixed = live_settings(self.settings), self._fixed()
        read = {
            "lr": self.actor.lr, "critic_lr": self.critic.lr, "max_grad_norm": self.critic.max_grad_norm,
            "temperature": float(self.temperature.value), "target_entropy": self.actions.target_entropy,
        }  # fmt: skip
        return {key: read[key] if key in read else self._now(live[key]) for key in live if key not in fixed}

    def _now(self, setting: Any) -> Any:
        """A schedule's value at the last update."""
        return value_at(setting, self._steps, self.task.horizon)

    # ------------------------------------------------------------ state

    def flats(self) -> list[Flat]:
        """The temperature too where it is not learned: it is learned by."""
        heat = () if self.settings.learn_temperature else (self.heat.flat, self.heat.statistics)
        return [*super().flats(), *heat, self.target.flat]

    def _parts(self) -> dict[str, nn.Module | Target[Twins] | Adam]:
        return {
            "policy": self.policy, "critics": self.critics, "target": self.target, "temperature": self.temperature,
            "actor_optimiser": self.actor, "critic_optimiser": self.critic, "temperature_optimiser": self.heat,
        }  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        state = joined(self._parts())
        return {**state, "updates": torch.tensor(self.updates), **settings_state(self.settings, self._built)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, own in self._parts().items():
            own.load_state_dict(part(state, f"{name}."))
        self.updates = int(state["updates"])
        self._use(restored_settings(self._built, state))


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Within, gradients go through a module and not into its parameters."""
    parameters = list(module.parameters())
    for parameter in parameters:
        parameter.requires_grad_(False)
    yield
    for parameter in parameters:
        parameter.requires_grad_(True)
