"""The settings of PPO."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shoal.base.config import Config, Count, Schedule
from shoal.base.errors import InputError


class PPOConfig(Config):
    """Proximal policy optimisation: several careful passes over each batch of fresh experience."""

    name: Literal["ppo"] = "ppo"
    lr: float | Schedule = 3e-4
    """Adam's step size; a number, or `{start, end, steps}` for a straight line."""
    unroll: Count = Field(128, ge=2)
    """Decisions per lane in one batch: the batch has `lanes x unroll` rows."""
    epochs: Count = Field(4, ge=1)
    """Passes over each batch. On a CPU 1 to 2 is often faster in wall time."""
    minibatch: Count = Field(256, ge=2)
    """Rows per parameter change, over all replicas of the trainer; divides the batch. Recurrent models take whole lanes, so
    there it is a multiple of `unroll x replicas`."""
    gamma: float = Field(0.99, ge=0, le=1)
    """Discount: how much a reward is worth one decision later."""
    lam: float = Field(0.95, ge=0, le=1)
    """GAE's lambda: 0 trusts the value function, 1 trusts the rewards seen."""
    clip: float = Field(0.2, gt=0)
    """How far the new policy may move from the one that acted, as a probability ratio."""
    value_clip: float | None = Field(None, gt=0)
    """How far a value may move in one update before its loss stops falling; left out: freely."""
    value_coef: float = Field(0.5, ge=0)
    """Weight of the value loss."""
    entropy: float | Schedule = 0.0
    """Weight of the entropy bonus; a number or a schedule."""
    target_kl: float | None = Field(None, gt=0)
    """Stop the passes once the policy has moved 1.5 times this far from the one that acted."""
    max_grad_norm: float = Field(0.5, gt=0)
    """Bound on the gradient's norm."""
    normalise_advantages: bool = True
    """Give the batch's advantages zero mean and unit spread."""
    normalise_observations: bool = False
    """Give float observations zero mean and unit spread, by statistics saved with the policy."""
    normalise_rewards: bool = False
    """Divide rewards by the spread of their discounted sum, saved with the policy."""
    shared: bool | None = None
    """Actor and critic share one model; left out: only where the model is recurrent."""
    squash: bool = False
    """Keep continuous actions inside their bounds by a tanh; otherwise the environment clips them."""
    log_std: float = 0.0
    """Logarithm of the first spread of continuous actions."""


def count_minibatches(config: PPOConfig, lanes: int, *, recurrent: bool, replicas: int = 1) -> int:
    """How many parts a batch is cut into; an impossible `minibatch` is an error with the nearest possible one.

    Each of the trainer's replicas has `lanes / replicas` lanes and gives its share to every minibatch.
    """
    batch = lanes * config.unroll
    unit = config.unroll * replicas if recurrent else 1
    if batch % config.minibatch == 0 and config.minibatch % unit == 0:
        return batch // config.minibatch
    possible = [size for size in range(unit, batch + 1, unit) if batch % size == 0 and size >= 2]
    nearest = min(possible, key=lambda size: abs(size - config.minibatch))
    whole = f" in whole lanes of {config.unroll}" if recurrent else ""
    whole += f" on each of {replicas} trainers" if recurrent and replicas > 1 else ""
    raise InputError(
        f"algorithm.minibatch = {config.minibatch} does not divide the batch of {batch} "
        f"({lanes} lanes x {config.unroll} steps){whole}: try {nearest}"
    )


def check_schedules(config: PPOConfig, horizon: int | None) -> None:
    """A schedule needs an end."""
    for key in ("lr", "entropy"):
        value = getattr(config, key)
        if isinstance(value, Schedule) and value.steps is None and horizon is None:
            raise InputError(f"algorithm.{key} has no end: give it `steps`, or set stop.steps")
