"""The settings of exploration by novelty."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from shoal.algorithms.novelty.bandit import ControllerConfig
from shoal.algorithms.q_learning.dqn import DQNConfig
from shoal.algorithms.q_learning.priorities import on_or_off
from shoal.algorithms.settings import Live
from shoal.base.config import Config, Count
from shoal.models.layers import Width


class NoveltyConfig(Config):
    """Never give up (Badia et al. 2020): a reward for what is new, and a ladder of arms that want it more or less."""

    arms: Count = Field(8, ge=2)
    """Ways to explore. Arm 0 wants the environment's reward alone and is what evaluation plays; the last wants novelty most."""
    weight: Live[float] = Field(0.3, gt=0)
    """What novelty counts beside the environment's reward, to the last arm."""
    gamma: Live[float] = Field(0.997, ge=0, lt=1)
    """Discount of arm 0, which looks farthest ahead. It takes the place of `algorithm.gamma`."""
    gamma_last: Live[float] = Field(0.99, ge=0, lt=1)
    """Discount of the last arm."""
    controller: Annotated[ControllerConfig | None, BeforeValidator(on_or_off)] = ControllerConfig()
    """Who chooses the arm of an episode: a bandit for each lane. `false`: lane i always plays arm i mod `arms`."""
    heads: Literal["joint", "separate"] = "joint"
    """One value for both rewards together, or one for each, which are then learned apart and added up to act."""
    relabel: Live[float] = Field(0.5, ge=0, le=1)
    """Share of replayed sequences that are learned from as if another arm, drawn at random, had played them."""
    embedding: Literal["inverse", "random", "observation"] = "inverse"
    """What is compared within an episode: what tells which action was taken, a random projection, or all that is seen."""
    width: Width = 32
    """Numbers of an embedding; `observation` has as many as are seen."""
    hidden: list[Width] = Field([64], min_length=1)
    """Layers of the networks for novelty."""
    neighbours: Count = Field(10, ge=1)
    """How many of the nearest are looked at within the episode."""
    memory: Count = Field(30_000, ge=1)
    """Decisions of an episode that are remembered; the oldest make room."""
    limit: float = Field(5.0, ge=1)
    """Most that novelty over all episodes may multiply novelty within the episode with."""


class NGUConfig(DQNConfig):
    """Deep Q-learning: action values from replay, with a target network. Several agents learn independently of each other."""

    novelty: Annotated[NoveltyConfig | None, BeforeValidator(on_or_off)] = None
    """Seek what is new (never give up): `true`, or its settings; left out: only the environment's reward counts."""

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        if self.rescale and self.novelty is not None and self.novelty.heads == "separate":
            raise ValueError(
                "rescale = true squeezes sums of both rewards: choose novelty.heads = joint, or rescale = false"
            )
        return self
