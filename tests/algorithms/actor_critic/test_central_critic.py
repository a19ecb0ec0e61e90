"""A central critic reads the global state, whoever acts does not; agents are told apart; values are learned on one scale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import shoal
from shoal.algorithms.actor_critic.minibatches import RowMinibatches
from shoal.algorithms.actor_critic.ppo import PPO, PPOConfig
from shoal.algorithms.actor_critic.value_scale import ValueScale
from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import NonFiniteError, Task
from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment
from shoal.api.fragment import Fragment
from shoal.api.policy import Request
from shoal.api.sight import AGENT, OWN, STATE
from shoal.base.config import Named
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.program.expand import expand
from shoal.rollout.plans import Plans, load_policy
from shoal.runs.evaluate import evaluate
from tests.algorithms.batches import GRU, MLP, fragment
from tests.algorithms.q_learning.hidden_coin import BLIND

PAIR = AgentGroup(("a", "b"), spaces.Box(-5, 5, (3,), np.float32), spaces.Discrete(4))
WORLD_SPACE = spaces.Box(-np.inf, np.inf, (5,), np.float32)


def build(model: Named = MLP, group: AgentGroup = PAIR, **settings: Any) -> PPO:
    defaults = {"unroll": 6, "minibatch": 12, "epochs": 2}
    return PPO(PPOConfig.parse({**defaults, **settings}), model, Task(group, 4, seed=3, state_space=WORLD_SPACE))


def batch_for(ppo: PPO, seed: int = 0) -> Fragment:
    """Random experience with the parts that its lanes note."""
    plain = build(Named(name="mlp", hidden=[4]))  # type: ignore[call-arg]
    batch = fragment(plain, seed=seed)
    random = torch.Generator().manual_seed(seed)
    parts = {OWN: batch.observation}
    if ppo.policy.agents:
        parts[AGENT] = torch.arange(4).expand(7, 4) % 2
    if ppo.needs.global_state:
        parts[STATE] = torch.randn(7, 4, 5, generator=random)
    batch.observation = parts if len(parts) > 1 else batch.observation
    batch.state = ppo.policy.initial_state(4)
    return batch


def coin(tmp_path: Path, *, state: bool = True, updates: int = 60, **algorithm: Any) -> tuple[dict[str, Any], Any]:
    """Train on the hidden coin -> the last row of metrics, the trained algorithm."""
    section = {"name": "ppo", "unroll": 12, "lr": 5e-3, "gamma": 0.8, **algorithm}
    tree = {
        "env": {"id": "tests.algorithms.q_learning.hidden_coin:HiddenCoin", "num_envs": 16, "kwargs": {"state": state}},
        "algorithm": section,
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": updates},
        "name": f"coin-{section.get('critic')}",
    }
    if not state:
        tree |= {"agents": {"blind_*": BLIND, "*": "other"}, "policies": {BLIND: {}, "other": {"play": "random"}}}
    experiment = Experiment.parse(tree)
    outcome = shoal.train(experiment, root=tmp_path, quiet=True)
    row = json.loads((outcome.folder / "metrics.jsonl").read_text().splitlines()[-1])
    algorithm_now = Plans(expand(experiment))[BLIND].algorithm
    load_policy(algorithm_now, CheckpointStore(outcome.folder / "checkpoints", keep=3).latest().tensors, BLIND)
    return row, algorithm_now


@pytest.mark.parametrize("state", [True, False], ids=["by its state", "by what others see"])
@pytest.mark.parametrize("name", ["ppo", "appo", "impala", "a2c"])
def test_only_a_central_critic_explains_what_only_the_world_shows(tmp_path: Path, state: bool, name: str) -> None:
    passes = {"minibatch": 96} if name in ("ppo", "appo") else {"lr": 2e-2, "normalise_advantages": False}
    explained = {
        critic: coin(tmp_path, state=state, updates=80, name=name, critic=critic, **passes)[0][
            "train/explained_variance"
        ]
        for critic in ("own", "central")
    }
    assert explained["own"] < 0.1
    assert explained["central"] > 0.9


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_a_truncation_bootstraps_from_the_last_state_of_the_world(tmp_path: Path, state: bool, normalise: bool) -> None:
    """+1 or -1 for ever, cut every 3 steps: worth 5 at gamma 0.8. From the coin of the next episode it would be 2.4."""
    _, ppo = coin(tmp_path, state=state, updates=150, minibatch=96, critic="central", normalise_values=normalise)
    parts = {OWN: torch.zeros(1, 2, 2), STATE: torch.zeros(1, 2, 1 if state else 5)}
    parts[STATE][0, :, -1] = torch.tensor([1.0, -1.0])
    value = ppo.policy.values(ppo.policy.normalised(parts), None, torch.zeros(1, 2, dtype=torch.bool)).detach()
    value = ppo.value_scale.restored(value) if normalise else value
    assert value[0].tolist() == pytest.approx([5.0, -5.0], abs=0.5)


@pytest.mark.parametrize("settings", [{}, {"agent_ids": True}, {"model": GRU}, {"normalise_observations": True}])
def test_acting_does_not_see_the_world(settings: dict[str, Any]) -> None:
    policy = build(critic="central", **settings).policy
    own = torch.randn(16, 3)
    observation = {OWN: own, AGENT: torch.arange(16) % 2} if policy.agents else own
    noise = torch.rand(16, policy.noise_size)
    decision = policy.act(
        Request(observation, torch.ones(16, dtype=torch.bool), noise, policy.initial_state(16)), explore=True
    )
    assert decision.action.shape == (16,)


@pytest.mark.parametrize("model", [MLP, GRU])
@pytest.mark.parametrize(("critic", "reads"), [("own", False), ("central", True)])
def test_the_world_reaches_values_and_nothing_else(model: Named, critic: str, reads: bool) -> None:
    ppo = build(model, critic=critic, agent_ids=True)
    batch = batch_for(ppo)

    def found_values() -> Any:
        seen = ppo.policy.normalised(batch.observation)
        return ppo.policy.evaluate(seen, batch.state, batch.first, batch.action, None)

    with torch.no_grad():
        before = found_values()
        if reads:
            batch.observation[STATE] += 1.0
        else:
            assert STATE not in batch.observation
            batch.observation[OWN][..., 0] += 1.0
        after = found_values()
    assert torch.equal(before.log_prob, after.log_prob) is reads
    assert not torch.allclose(before.value, after.value)


@pytest.mark.parametrize("model", [MLP, GRU])
def test_agents_are_told_apart(model: Named) -> None:
    ppo = build(model, agent_ids=True)
    batch = batch_for(ppo)
    batch.observation[OWN][:] = 1.0
    with torch.no_grad():
        value = ppo.policy.values(ppo.policy.normalised(batch.observation), batch.state, batch.first)
    assert not torch.allclose(value[0, 0], value[0, 1])
    assert torch.allclose(value[0, 0], value[0, 2])


@pytest.mark.parametrize("settings", [{}, {"agent_ids": True}, {"normalise_values": True}])
def test_gradients_by_hand_equal_autograd_with_a_central_critic(settings: dict[str, Any]) -> None:
    ppo = build(critic="central", minibatch=24, **settings)
    kernel = ppo.passes.kernel
    assert kernel is not None
    ppo.update(batch_for(ppo, seed=5), SoloLearner())
    (part,) = RowMinibatches(ppo.compute_advantages(batch_for(ppo), SoloLearner()), 1).epoch(np.random.default_rng(0))
    gradients = []
    assert ppo.flat.gradients is not None
    for ppo.passes.kernel in (kernel, None):
        ppo.flat.gradients.zero_()
        ppo.passes.loss(part, 0.01).backward()
        gradients.append(ppo.flat.gradients.clone())
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("settings", [{"shared": True}, {"model": GRU}, {"value_clip": 0.2}])
def test_other_central_critics_are_left_to_autograd(settings: dict[str, Any]) -> None:
    ppo = build(critic="central", **settings)
    assert ppo.passes.kernel is None
    before = ppo.flat.parameters.clone()
    ppo.update(batch_for(ppo), SoloLearner())
    assert not torch.equal(before, ppo.flat.parameters)


@pytest.mark.parametrize("own", [spaces.Dict({"x": PAIR.observation_space}), spaces.Box(0, 255, (36, 36, 3), np.uint8)])
def test_observations_with_parts_and_pictures(own: spaces.Space[Any]) -> None:
    group = AgentGroup(("a", "b"), own, spaces.Discrete(4))
    policy = build(Named.parse({"name": "dict"}), group, critic="central", agent_ids=True).policy
    seen = {
        OWN: {"x": torch.zeros(2, 3, 3)} if isinstance(own, spaces.Dict) else torch.zeros(2, 3, 36, 36, 3).byte(),
        AGENT: torch.zeros(2, 3, dtype=torch.int64),
        STATE: torch.zeros(2, 3, 5),
    }
    assert policy.values(policy.normalised(seen), None, torch.zeros(2, 3, dtype=torch.bool)).shape == (2, 3)


# ---------------------------------------------------------------- value scale


def test_the_value_scale_is_mean_and_spread_of_the_targets() -> None:
    scale, random = ValueScale(), np.random.default_rng(0)
    parts = [torch.from_numpy(random.normal(50.0, 7.0, (6, 4)).astype(np.float32)) for _ in range(5)]
    for part in parts:
        scale.update(part, torch.arange(24), lambda x: x)
    everything = torch.stack(parts)
    torch.testing.assert_close(scale(everything).mean(), torch.tensor(0.0), atol=1e-4, rtol=0)
    torch.testing.assert_close(scale(everything).std(unbiased=False), torch.tensor(1.0), atol=1e-4, rtol=0)
    torch.testing.assert_close(scale.restored(scale(everything)), everything)


def test_a_target_that_is_not_finite_leaves_the_scale_as_it_was() -> None:
    ppo = build(normalise_values=True)
    batch = batch_for(ppo)
    ppo.update(batch, SoloLearner())
    before = ppo.flat.block.clone()
    batch.reward[0, 2] = float("nan")
    with pytest.raises(NonFiniteError):
        ppo.update(batch, SoloLearner())
    assert torch.equal(before, ppo.flat.block)


# ---------------------------------------------------------------- whole runs


def test_runs_can_be_judged_and_go_on_elsewhere(tmp_path: Path) -> None:
    tree = {
        "env": {"id": "shoal/spread", "num_envs": 4},
        "algorithm": {"name": "ppo", "unroll": 5, "minibatch": 60, "critic": "central", "agent_ids": True},
        "model": {"name": "mlp", "hidden": [8]},
        "stop": {"updates": 2},
        "name": "spread",
    }
    folder = str(shoal.train(Experiment.parse(tree), root=tmp_path, quiet=True).folder)
    here = evaluate(folder, episodes=4, root=tmp_path)[0]
    there = evaluate(folder, overrides=["env.id=mpe2/simple_spread_v3"], episodes=4, root=tmp_path)[0]
    assert len(here.returns) == len(there.returns) == 4
    assert here.by_policy.keys() == there.by_policy.keys()


def test_a_policy_that_tells_agents_apart_plays_as_many(tmp_path: Path) -> None:
    def tree(name: str, copies: int, **sections: Any) -> Experiment:
        return Experiment.parse(
            {
                "env": {"id": "shoal/multi-cartpole", "num_envs": 4, "kwargs": {"agents": copies}},
                "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32, "agent_ids": True},
                "model": {"name": "mlp", "hidden": [8]},
                "stop": {"updates": 1},
                "name": name,
                **sections,
            }
        )

    folder = shoal.train(tree("two", 2), root=tmp_path, quiet=True).folder
    with_old = {
        "agents": {"pole_0": "new", "*": "old"},
        "policies": {"new": {"algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32}},
                     "old": {"from": str(folder), "frozen": True}},
    }  # fmt: skip
    assert shoal.train(tree("three", 3, **with_old), root=tmp_path, quiet=True).steps > 0
    with pytest.raises(InputError, match="tells 2 agents apart; here it would play 3"):
        shoal.train(tree("four", 4, **with_old), root=tmp_path, quiet=True)
