"""The settings of DQN."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from shoal.algorithms.exploration.config import NoveltyConfig
from shoal.algorithms.priorities import on_or_off
from shoal.algorithms.q_learning import QLearningConfig


class DQNConfig(QLearningConfig):
    """Deep Q-learning: action values from replay, with a target network. Several agents learn independently of each other."""

    name: Literal["dqn"] = "dqn"
    novelty: Annotated[NoveltyConfig | None, BeforeValidator(on_or_off)] = None
    """Seek what is new (never give up): `true`, or its settings; left out: only the world's reward counts."""

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        if self.rescale and self.novelty is not None and self.novelty.heads == "separate":
            raise ValueError(
                "rescale = true squeezes sums of both rewards: choose novelty.heads = joint, or rescale = false"
            )
        return self
