"""The settings of SAC."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shoal.algorithms.q_learning.replayed import ReplayedConfig
from shoal.algorithms.settings import Live
from shoal.base.config import Count, Rate


class SACConfig(ReplayedConfig):
    """Soft actor-critic: rewards and entropy at once, from replay, for bounded continuous or Discrete actions."""

    name: Literal["sac"] = "sac"
    unroll: Count = Field(1, ge=1)
    """Decisions per sequence: what a lane plays between two rounds, and what is replayed as a whole."""
    batch: Count = Field(256, ge=1)
    """Rows of one update: `batch / unroll` sequences."""
    updates: Count = Field(1, ge=1)
    """Updates per round of `lanes x unroll` new rows."""
    warmup: Count = Field(1_000, ge=1)
    """Rows that are kept before the first update. Until then every action is drawn evenly from all there are."""
    lr: Live[Rate] = 3e-4
    """Learning rate of Adam, for actor and temperature; a number, or `{start, end, steps}` to anneal it linearly."""
    critic_lr: Live[Rate | None] = None
    """Learning rate of the critics; left out: `lr`."""
    tau: Live[float] = Field(0.005, gt=0, le=1)
    """Share by which the target critics move towards the critics after every update."""
    temperature: Live[float] = Field(1.0, gt=0)
    """What a nat of entropy is worth, in units of reward: at first, or throughout if it is not learned."""
    learn_temperature: bool = True
    """Raise the temperature while there is less entropy than `target_entropy`, and lower it while there is more."""
    target_entropy: Live[float | None] = None
    """Entropy to hold, in nats; left out: minus the count of numbers in an action, each taken to run from -1 to 1, or half of
    the most there is among the allowed actions."""
    hold_noise: Count = Field(1, ge=1)
    """Decisions in a row that share the noise of their actions: above 1, exploration pushes one way for a while."""
    max_grad_norm: Live[float] = Field(100.0, gt=0)
    """Bound on the gradient's norm, of actor and critics each."""
