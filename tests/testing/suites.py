"""Every built-in algorithm that is quick, with the models and settings that change its path: what both suites run over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from shoal.algorithms import ALGORITHMS
from shoal.api.algorithm import Algorithm, Task
from shoal.api.env import AgentGroup
from shoal.base.config import Named

BOX = Box(-5.0, 5.0, (3,), np.float32)
SPACES: dict[str, AgentGroup] = {
    "discrete": AgentGroup(("a", "b"), BOX, Discrete(4)),
    "shifted": AgentGroup(("a",), BOX, Discrete(3, start=2)),
    "multi": AgentGroup(("a",), BOX, MultiDiscrete([2, 5])),
    "bits": AgentGroup(("a",), BOX, MultiBinary(3)),
    "continuous": AgentGroup(("a",), BOX, Box(-1.0, 1.0, (2,), np.float32)),
    "image": AgentGroup(("a",), Box(0, 255, (36, 36, 3), np.uint8), Discrete(3)),
    "board": AgentGroup(("a",), Box(0, 1, (6, 7, 2), np.int8), Discrete(7)),
    "dict": AgentGroup(("a",), Dict({"x": BOX, "kind": Discrete(3)}), Discrete(2)),
}
FRESH: dict[str, Any] = {"unroll": 8}
CLIPPED: dict[str, Any] = {"unroll": 8, "minibatch": 32, "epochs": 2}
REPLAY: dict[str, Any] = {"unroll": 4, "batch": 64, "capacity": 1_000, "warmup": 64}
MLP: dict[str, Any] = {"name": "mlp", "hidden": [16]}
GRU: dict[str, Any] = {"name": "gru", "hidden": [16]}
LSTM: dict[str, Any] = {"name": "lstm", "hidden": [16]}
LADDER: dict[str, Any] = {"epsilon": {"base": 0.4, "alpha": 7}}


@dataclass(frozen=True)
class Case:
    name: str
    space: str
    config: dict[str, Any]
    model: dict[str, Any] = field(default_factory=lambda: MLP)

    @property
    def kind(self) -> type[Algorithm]:
        return ALGORITHMS.load(self.name)  # type: ignore[no-any-return]

    @property
    def task(self) -> Task:
        return Task(SPACES[self.space], 16, 0, horizon=1_000, state_space=Box(-1.0, 1.0, (6,), np.float32))

    @property
    def masked(self) -> bool:
        return isinstance(SPACES[self.space].action_space, Discrete | MultiDiscrete)

    def build(self) -> Algorithm:
        return self.kind(self.kind.Config.parse(self.config), Named.parse(self.model), self.task)

    def __str__(self) -> str:
        base = {**FRESH, **CLIPPED, **REPLAY}
        settings = [f"{key}={value}" for key, value in self.config.items() if base.get(key) is None]
        return " ".join([self.name, self.space, self.model["name"], *settings])


CASES = [
    *(Case("ppo", space, CLIPPED) for space in ("discrete", "shifted", "multi", "bits", "continuous")),
    Case("ppo", "continuous", {**CLIPPED, "squash": True, "normalise_observations": True, "normalise_rewards": True}),
    Case("ppo", "discrete", {**CLIPPED, "normalise_values": True, "shared": True}),
    Case("ppo", "discrete", {**CLIPPED, "critic": "central", "agent_ids": True}),
    Case("ppo", "discrete", {**CLIPPED, "critic": "central"}, GRU),
    Case("ppo", "discrete", CLIPPED, GRU),
    Case("ppo", "multi", CLIPPED, LSTM),
    Case("ppo", "dict", CLIPPED, {"name": "dict"}),
    Case("ppo", "image", {**CLIPPED, "unroll": 4}, {"name": "nature"}),
    Case("ppo", "board", {**CLIPPED, "unroll": 4}, {"name": "board"}),
    Case("appo", "discrete", CLIPPED),
    Case("appo", "continuous", CLIPPED, GRU),
    Case("impala", "discrete", FRESH),
    Case("impala", "continuous", FRESH, LSTM),
    Case("a2c", "discrete", FRESH),
    Case("a2c", "multi", FRESH, GRU),
    Case("a3c", "discrete", FRESH),
    Case("dqn", "discrete", REPLAY),
    Case("dqn", "shifted", {**REPLAY, "dueling": True, "n_step": 3, "tau": 0.1}),
    Case("dqn", "discrete", {**REPLAY, **LADDER, "prioritised": True, "rescale": True, "burn_in": 2}, GRU),
    Case("dqn", "image", REPLAY, {"name": "impala"}),
    Case("dqn", "discrete", {**REPLAY, "novelty": True}),
    Case("qmix", "discrete", REPLAY),
    Case("qmix", "discrete", {**REPLAY, "mixer": "vdn", "prioritised": True}, GRU),
    Case("qmix", "discrete", {**REPLAY, "mixer": "none", "agent_ids": False}),
    Case("sac", "continuous", {**REPLAY, "unroll": 1}),
    Case("sac", "discrete", {**REPLAY, "prioritised": True, "n_step": 2}),
]
