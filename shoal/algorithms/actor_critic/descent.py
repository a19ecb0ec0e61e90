"""Steps along the losses of minibatches, one after the other: losses in, metrics out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from shoal.algorithms.actor_critic.replicas import mean_of_rows
from shoal.algorithms.learner import number
from shoal.algorithms.losses import approximate_kl
from shoal.api.algorithm import Learner, Optimiser
from shoal.api.metric import Mean, Metric


@dataclass
class Loss:
    """One minibatch: what is minimised, and the parts that become metrics."""

    total: Tensor | float
    policy: Tensor | float
    value: Tensor | float
    entropy: Tensor
    """Per row."""
    log_ratio: Tensor
    """Per row: log-probability now, minus that of the policy that acted."""
    backward: Callable[[], None]
    """Write the gradient of `total`."""
    means: dict[str, Tensor] = field(default_factory=dict)
    """Metric -> numbers whose mean it is."""

    @classmethod
    def of_nothing(cls) -> Loss:
        """No rows, no gradient."""
        none = torch.zeros(0)
        return cls(0.0, 0.0, 0.0, none, none, lambda: None)

    @property
    def rows(self) -> int:
        """How many rows the means are over."""
        return self.log_ratio.numel()

    def detached(self) -> Loss:
        """Without the graph behind it, so that the graph's memory is free for the next minibatch."""
        if isinstance(self.total, float) or not self.total.requires_grad:
            return self
        kept = {name: getattr(self, name).detach() for name in ("total", "policy", "value", "entropy", "log_ratio")}
        return replace(self, **kept, backward=_spent)


def _spent() -> None:
    raise RuntimeError("the graph of this loss was freed")


@dataclass
class Descent:
    """The steps of one update."""

    losses: list[Loss] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)

    @torch.no_grad()
    def metrics(self, clip: float | None = None) -> dict[str, Metric]:
        """Over all minibatches at once: small operations per minibatch would cost as much as the learning."""
        losses, count = self.losses, len(self.losses)
        if count == 0:
            return {"train/minibatches": Mean(0)}
        log_ratio = torch.cat([loss.log_ratio.flatten() for loss in losses])
        ratio = log_ratio.exp()
        means = {
            "entropy_loss": -torch.cat([loss.entropy.flatten() for loss in losses]),
            "approx_kl": approximate_kl(log_ratio, ratio),
        }
        means |= {name: torch.cat([loss.means[name].flatten() for loss in losses]) for name in losses[0].means}
        if clip is not None:
            means["clip_fraction"] = ((ratio - 1.0).abs() > clip).float()
        metrics: dict[str, Metric] = {f"train/{name}": Mean(number(x.mean()), count) for name, x in means.items()}
        for name, part in (("policy_loss", "policy"), ("value_loss", "value"), ("loss", "total")):
            metrics[f"train/{name}"] = Mean(sum(number(getattr(loss, part)) for loss in losses) / count, count)
        metrics["train/grad_norm"] = Mean(sum(self.norms) / count, count)
        metrics["train/minibatches"] = Mean(count)
        return metrics


def descend(
    losses: Iterable[Loss], optimiser: Optimiser, learner: Learner, *, target_kl: float | None = None
) -> Descent:
    """One step along each loss as it comes; `losses` is lazy, so that each is that of the parameters before it.

    Ends early where the policy would be 1.5 times `target_kl` from the one that acted.
    """
    descent = Descent()
    for loss in losses:
        if target_kl and _kl(loss, learner) > 1.5 * target_kl:
            break
        # Nobody skips a step: the replicas of this trainer that have rows wait for those that have none.
        norm = learner.step(loss, optimiser, loss.rows)
        if loss.rows:
            descent.norms.append(norm)
            descent.losses.append(loss.detached())
    return descent


@torch.no_grad()
def _kl(loss: Loss, learner: Learner) -> float:
    (kl,) = mean_of_rows([approximate_kl(loss.log_ratio, loss.log_ratio.exp())], learner.mean)
    return float(kl)
