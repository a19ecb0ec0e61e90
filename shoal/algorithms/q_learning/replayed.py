"""What all who learn from kept experience set alike: how much is kept, what is drawn, and how far rewards are added up."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from shoal.algorithms.q_learning.priorities import PrioritisedConfig, on_or_off
from shoal.algorithms.settings import Live
from shoal.api.algorithm import Priorities, Replay
from shoal.base.config import Config, Count
from shoal.base.errors import InputError


class ReplayedConfig(Config):
    """The settings that all of them have."""

    unroll: Count = Field(8, ge=1)
    """Decisions per sequence: what a lane plays between two rounds, and what is replayed as a whole."""
    gamma: Live[float] = Field(0.99, ge=0, le=1)
    """Discount: how much a reward is worth one decision later."""
    n_step: Count = Field(1, ge=1)
    """Rewards that are added up before the target network values the rest."""
    capacity: Count = Field(50_000, ge=1)
    """Rows that are kept for replay."""
    batch: Count = Field(128, ge=1)
    """Rows of one update: `batch / unroll` sequences."""
    updates: Count = Field(16, ge=1)
    """Updates per round of `lanes x unroll` new rows."""
    warmup: Count = Field(1_000, ge=1)
    """Rows that are kept before the first update."""
    prioritised: Annotated[PrioritisedConfig | None, BeforeValidator(on_or_off)] = None
    """Draw what was valued worst more often: `true`, or its settings; left out: all that is kept alike."""


def replay_of(config: ReplayedConfig, horizon: int | None, *, first: bool = False) -> Replay:
    """What is kept and drawn; a batch is whole sequences. `first`: actors give the first priorities."""
    if config.batch % config.unroll:
        nearest = max(1, round(config.batch / config.unroll)) * config.unroll
        raise InputError(
            f"algorithm.batch = {config.batch} is no multiple of algorithm.unroll = {config.unroll}: try {nearest}"
        )
    own = config.prioritised
    priorities = None if own is None else Priorities(own.alpha, own.beta, horizon, first)
    return Replay(config.capacity, config.batch // config.unroll, config.updates, config.warmup, priorities)
