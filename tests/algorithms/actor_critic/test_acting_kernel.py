"""Decisions by hand are those of the network, and a row's bits do not depend on its company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from shoal.algorithms.actor_critic.acting_kernel import DenseActor
from shoal.algorithms.actor_critic.policy import ActorCritic
from shoal.algorithms.actor_critic.ppo import PPO, PPOConfig
from shoal.api.algorithm import Task
from shoal.api.env import AgentGroup
from shoal.api.policy import Request
from shoal.base.config import Named
from shoal.base.flat import Flat
from shoal.models.mlp import MLPModel
from shoal.streams.inference import Ask, decide

OBSERVATIONS = Box(-5, 5, (2, 3), np.float32)
SIZES = (16, 24, 40, 64, 96)


def policy(actions: Any, space: Box = OBSERVATIONS, *, normalise: bool = False, **model: Any) -> ActorCritic:
    torch.manual_seed(1)
    section = Named.parse({"name": "mlp", **model})
    made = ActorCritic(AgentGroup(("a",), space, actions), section, shared=False, normalise=normalise, squash=False)
    with torch.no_grad():
        made.head.linear.weight.mul_(100)  # far from even chances
    return made


def rows(count: int, choices: int, *, masked: bool = False) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(count)
    mask = random.random((count, choices)) < 0.6
    mask[np.arange(count), random.integers(0, choices, count)] = True
    seen = random.normal(size=(count, 2, 3)).astype(np.float32)
    return seen, random.random((count, 1), np.float32), mask if masked else None


@pytest.mark.parametrize("actions", [Discrete(2), Discrete(7, start=3), Discrete(18)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_decisions_are_those_of_the_network(actions: Discrete, masked: bool, explore: bool, activation: str) -> None:
    made = policy(actions, activation=activation)
    seen, noise, mask = rows(512, int(actions.n), masked=masked)
    quick = made.quick()
    assert quick is not None
    action, extras = quick(seen, noise, mask, explore=explore)
    tensors = [None if array is None else torch.from_numpy(array) for array in (seen, noise, mask)]
    request = Request(tensors[0], torch.ones(512, dtype=torch.bool), tensors[1], action_mask=tensors[2])  # type: ignore[arg-type]
    with torch.no_grad():
        decision = made.act(request, explore=explore)
    np.testing.assert_array_equal(action, decision.action.numpy())
    assert len(np.unique(action)) > actions.n // 2, "many choices are taken"
    assert action.min() >= actions.start
    assert extras.keys() == decision.extras.keys()
    for name, values in extras.items():
        np.testing.assert_allclose(values, decision.extras[name].numpy(), atol=2e-5)


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3)])
@pytest.mark.parametrize("explore", [True, False])
def test_continuous_decisions_are_those_of_the_network_to_the_bit(shape: tuple[int, ...], explore: bool) -> None:
    made = policy(Box(-1, 1, shape, np.float32))
    seen, _, _ = rows(512, 2)
    noise = np.random.default_rng(1).random((512, made.noise_size), np.float32)
    quick = made.quick()
    assert quick is not None
    action, extras = quick(seen, noise, None, explore=explore)
    request = Request(torch.from_numpy(seen), torch.ones(512, dtype=torch.bool), torch.from_numpy(noise))
    with torch.no_grad():
        decision = made.act(request, explore=explore)
    assert action.shape == (512, *shape)
    np.testing.assert_array_equal(action, decision.action.numpy())
    assert extras.keys() == decision.extras.keys()
    for name, values in extras.items():
        np.testing.assert_array_equal(values, decision.extras[name].numpy())


@pytest.mark.parametrize("choices", [2, 3, 6, 18])
@pytest.mark.parametrize("hidden", [[64, 64], [256], [20, 12, 8]])
def test_a_row_does_not_depend_on_its_company(choices: int, hidden: list[int]) -> None:
    quick = policy(Discrete(choices), hidden=hidden).quick()
    assert quick is not None
    seen, noise, _ = rows(96, choices)
    _, whole = quick(seen, noise, None, explore=True)
    for size in SIZES:
        some = np.random.default_rng(size).permutation(96)[:size]
        _, part = quick(seen[some], noise[some], None, explore=True)
        np.testing.assert_array_equal(part["log_prob"], whole["log_prob"][some], err_msg=f"{size} rows")


def test_parameters_that_move_are_followed() -> None:
    made = policy(Discrete(4))
    seen, noise, _ = rows(16, 4)
    before = made.quick()
    assert before is not None
    _, old = before(seen, noise, None, explore=True)
    flat = Flat(made, gradients=False)
    assert made.quick() is not before, "the layout moved them into one block"
    flat.parameters.mul_(0.5)
    now = made.quick()
    assert now is made.quick(), "built once"
    assert now is not None
    _, new = now(seen, noise, None, explore=True)
    assert (old["log_prob"] != new["log_prob"]).all()


def test_what_is_not_finite_shows_and_raises_nothing() -> None:
    made = policy(Discrete(3))
    with torch.no_grad():
        made.head.linear.bias[1] = torch.inf
    quick = made.quick()
    assert quick is not None
    seen, noise, _ = rows(16, 3)
    action, extras = quick(seen, noise, None, explore=True)
    assert set(action.tolist()) <= {0, 1, 2}
    assert not np.isfinite(extras["log_prob"]).any()


@pytest.mark.parametrize(
    ("what", "settings"),
    [
        ("another activation", {"activation": "elu"}),
        ("norms", {"layer_norm": True}),
        ("wide layers", {"hidden": [512, 64]}),
        ("observations on a scale", {"normalise": True}),
        ("bytes", {"space": Box(0, 255, (2, 3), np.uint8)}),
        ("several choices", {"actions": MultiDiscrete([2, 3])}),
    ],
)
def test_other_policies_decide_as_ever(what: str, settings: dict[str, Any]) -> None:
    assert policy(**{"actions": Discrete(2), **settings}).quick() is None, what


class Louder(MLPModel):
    """A user's own, on top of ours."""

    def forward(self, observation: Any, state: Any, first: torch.Tensor) -> tuple[torch.Tensor, Any]:
        features, state = super().forward(observation, state, first)
        return 2 * features, state


def test_a_model_of_the_user_s_own_is_asked_itself() -> None:
    task = Task(AgentGroup(("a",), OBSERVATIONS, Discrete(2)), 4, seed=1)
    settings = PPOConfig.parse({"unroll": 4, "minibatch": 8})
    for name, by_hand in (("mlp", True), (f"{__name__}:Louder", False)):
        ppo = PPO(settings, Named.parse({"name": name}), task)
        assert (ppo.policy.quick() is not None) == by_hand
        assert (ppo.passes.kernel is not None) == by_hand


def test_asks_of_any_size_are_padded() -> None:
    made = policy(Discrete(5))
    seen, noise, mask = rows(21, 5, masked=True)
    ask = Ask(seen, np.ones(21, bool), noise, None, mask)
    whole = decide(made, ask, explore=True, version=7)
    assert whole.version == 7
    assert whole.action.shape == whole.extras["log_prob"].shape == (21,)
    one = decide(made, Ask(seen[4:5], ask.first[:1], noise[4:5], None, mask[4:5]), explore=True, version=7)
    assert one.extras["log_prob"][0] == whole.extras["log_prob"][4]
    assert isinstance(made.quick(), DenseActor)
