"""Action values and gradients by hand are those of the network and of autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.q_learning.dqn import DQN, DQNConfig
from shoal.api.algorithm import Task
from shoal.api.env import AgentGroup
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.base.flat import Flat
from shoal.models.mlp import MLPModel

OBSERVATIONS = Box(-5, 5, (2, 3), np.float32)
ROWS, LANES, CHOICES = 5, 8, 3


def made(model: dict[str, Any] | None = None, space: Box = OBSERVATIONS, **settings: Any) -> DQN:
    config = DQNConfig.parse({"unroll": ROWS - 1, "batch": 4 * (ROWS - 1), "target_every": 3, **settings})
    section = Named.parse({"name": "mlp", "hidden": [16, 12], **(model or {})})
    return DQN(config, section, Task(AgentGroup(("a",), space, Discrete(CHOICES, start=1)), LANES, seed=1))


def batch(seed: int, *, weighed: bool = False) -> Fragment:
    random = np.random.default_rng(seed)
    shape = (ROWS, LANES)

    def chance(p: float) -> torch.Tensor:
        return torch.from_numpy(random.random(shape) < p)

    valid = chance(0.8)
    valid[-1] = False
    return Fragment(
        torch.from_numpy(random.normal(size=(*shape, 2, 3)).astype(np.float32)),
        torch.from_numpy(random.integers(1, 1 + CHOICES, shape)),
        torch.from_numpy(random.normal(size=shape).astype(np.float32) * 2),
        chance(0.1), chance(0.1), valid, chance(0.1), torch.zeros(shape, dtype=torch.int64), {}, None, None,
        torch.arange(LANES),
        torch.arange(LANES) if weighed else None,
        torch.from_numpy(random.random(LANES, np.float32)) if weighed else None,
    )  # fmt: skip


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dueling": True, "double": False},
        {"dueling": True, "prioritised": True, "loss": "squared"},
        {"rescale": True, "tau": 0.1},
    ],
)
def test_updates_are_those_of_autograd(activation: str, settings: dict[str, Any]) -> None:
    by_hand, by_torch = (made({"activation": activation}, **settings) for _ in range(2))
    assert by_hand._by_hand is not None
    by_torch._by_hand = None
    weighed = bool(settings.get("prioritised"))
    for seed in range(8):
        said, wanted = (each.update(batch(seed, weighed=weighed), SoloLearner()) for each in (by_hand, by_torch))
        for name, metric in said.metrics.items():
            assert metric.value == pytest.approx(wanted.metrics[name].value, rel=1e-3, abs=1e-4), name
        if weighed:
            torch.testing.assert_close(said.priorities, wanted.priorities, rtol=1e-3, atol=1e-4)
        for ours, theirs in zip(by_hand.policy.parameters(), by_torch.policy.parameters(), strict=True):
            assert ours.grad is not None
            assert theirs.grad is not None
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)
    assert float(by_hand.flat.gradients.norm()) > 1e-3  # type: ignore[union-attr]


@pytest.mark.parametrize("dueling", [True, False])
def test_networks_that_move_and_change_are_followed(dueling: bool) -> None:
    dqn = made({"activation": "relu"}, dueling=dueling)
    seen = batch(1)

    def check() -> None:
        online, target = dqn._values(seen.observation, seen)
        with torch.no_grad():
            for said, network in ((online, dqn.policy), (target, dqn.target.module)):
                torch.testing.assert_close(said, network.values(seen.observation, None, seen.first)[0])

    check()
    with torch.no_grad():
        dqn.policy.model.dense.linears[0].weight.mul_(2)
        (dqn.policy.head.value or dqn.policy.head.advantage).weight.add_(1)  # type: ignore[union-attr]
    check()
    dqn.flat = Flat(dqn.policy, gradients=True)
    dqn.flat.parameters.mul_(0.5)
    check()


class Louder(MLPModel):
    """A user's own, on top of ours."""

    def forward(self, observation: Any, state: Any, first: torch.Tensor) -> tuple[torch.Tensor, Any]:
        features, state = super().forward(observation, state, first)
        return 2 * features, state


@pytest.mark.parametrize(
    ("what", "settings"),
    [
        ("another activation", {"model": {"activation": "gelu"}}),
        ("norms", {"model": {"layer_norm": True}}),
        ("wide layers", {"model": {"hidden": [512, 64]}}),
        ("a model of the user's own", {"model": {"name": f"{__name__}:Louder"}}),
        ("bytes", {"space": Box(0, 255, (2, 3), np.uint8)}),
    ],
)
def test_other_networks_learn_as_ever(what: str, settings: dict[str, Any]) -> None:
    assert made(**settings)._by_hand is None, what


def test_what_is_not_finite_shows_in_the_norm() -> None:
    dqn, bad = made(), batch(2)
    bad = replace(bad, reward=torch.full_like(bad.reward, torch.nan))
    with pytest.raises(Exception, match="the gradient's norm is nan"):
        dqn.update(bad, SoloLearner())
