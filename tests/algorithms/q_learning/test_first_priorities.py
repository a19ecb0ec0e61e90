"""First priorities, made by actors: against slow Python on what they post, in the tree, and in every layout of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.algorithms.q_learning.dqn import DQN, DQNConfig
from shoal.algorithms.q_learning.rescaling import rescaled, restored
from shoal.api.algorithm import Priorities
from shoal.api.experiment import EnvConfig
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.buffers.prioritised import LEAST, PrioritisedReplay
from shoal.envs import make_env
from tests.algorithms.batches import GRU, MLP
from tests.algorithms.played import played, task_of
from tests.algorithms.q_learning import test_q_learning as alone
from tests.algorithms.q_learning import test_qmix as teams

ALPHA = 0.5


def agent(world: Any, model: Named = GRU, **settings: Any) -> DQN:
    asked = {"alpha": ALPHA, "eta": 0.7}
    return DQN(DQNConfig(unroll=6, batch=24, prioritised=asked, epsilon=0.6, **settings), model, task_of(world))


def cartpole() -> Any:
    """Short episodes, so that ends of both kinds come up."""
    return make_env(EnvConfig(id="CartPole-v1", kwargs={"max_episode_steps": 15}), 4)


def slow(algorithm: DQN, fragments: list[Fragment]) -> list[list[float]]:
    """Fragment by fragment, lane by lane. A target that would need the value of what nobody decided on is left out."""
    carry = algorithm.needs.burn_in + algorithm.needs.bootstrap - 1
    return [
        [slow_lane(algorithm, fragment, following.observation[carry], lane) for lane in range(4)]
        for fragment, following in zip(fragments, fragments[1:], strict=False)
    ]


def slow_lane(algorithm: DQN, fragment: Fragment, open_rows: torch.Tensor, lane: int) -> float:
    """`open_rows`: what the next fragment opens with; when this one was posted, that was still to be decided on."""
    config = algorithm.settings
    errors = []
    for row in np.flatnonzero(fragment.valid[:, lane]):
        total, discount, at = 0.0, 1.0, row
        for _ in range(config.n_step):
            total += discount * float(fragment.reward[at, lane])
            terminated, truncated = bool(fragment.terminated[at, lane]), bool(fragment.truncated[at, lane])
            discount *= 0.0 if terminated else config.gamma
            at += 1
            if terminated or truncated:
                break
        if not terminated and (truncated or torch.equal(fragment.observation[at, lane], open_rows[lane])):
            continue
        best = fragment.extras["best"][at, lane] if not terminated else torch.tensor(0.0)
        target = torch.tensor(total) + discount * (restored(best) if config.rescale else best)
        errors.append(
            abs(float(fragment.extras["value"][row, lane] - (rescaled(target) if config.rescale else target)))
        )
    assert config.prioritised is not None
    eta = config.prioritised.eta
    return eta * max(errors) + (1 - eta) * float(np.mean(errors)) if errors else math.nan


@pytest.mark.parametrize("model", [MLP, GRU], ids=["mlp", "gru"])
@pytest.mark.parametrize(
    "settings", [{}, {"n_step": 3}, {"n_step": 3, "burn_in": 4, "rescale": True}, {"rescale": True}]
)
def test_against_slow_python(settings: dict[str, Any], model: Named) -> None:
    world = cartpole()
    algorithm = agent(world, model, **settings)
    fragments = played(algorithm, world, 12)
    assert any(bool((f.truncated & f.valid).any()) for f in fragments)
    assert any(bool((f.terminated & f.valid).any()) for f in fragments)
    expected = np.array(slow(algorithm, fragments))
    found = np.array([f.priority.numpy() for f in fragments[:-1]])
    assert np.isfinite(expected).sum() > 30
    assert found == pytest.approx(expected, rel=1e-4, nan_ok=True)


def test_what_is_noted_is_what_the_policy_thinks() -> None:
    world = cartpole()
    algorithm = agent(world)
    (fragment,) = played(algorithm, world, 1)
    values, _ = algorithm.policy.values(fragment.observation, fragment.state, fragment.first)
    chosen = values.gather(-1, fragment.action.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(fragment.extras["value"][fragment.valid], chosen[fragment.valid], atol=1e-6)
    assert torch.allclose(fragment.extras["best"][fragment.valid], values.amax(-1)[fragment.valid], atol=1e-6)
    assert (fragment.extras["value"] < fragment.extras["best"])[fragment.valid].any(), "it explored"


def test_they_reach_the_tree() -> None:
    world = cartpole()
    fragment = played(agent(world), world, 3)[-1].map(lambda t: t.numpy())
    replay = PrioritisedReplay(fragment, 8, Priorities(ALPHA, 0.4, first=True), seed=1)
    replay.insert(fragment)
    assert np.isfinite(fragment.priority).all()
    assert replay._tree.values[:4] == pytest.approx((fragment.priority + LEAST) ** ALPHA)
    assert len(set(fragment.priority.tolist())) == 4
    assert replay.sample(8, 0).priority is None


def test_without_a_decided_row_they_are_not_known() -> None:
    world = cartpole()
    config = DQNConfig(unroll=1, batch=8, prioritised=True)
    fragments = played(DQN(config, MLP, task_of(world)), world, 30)
    ended = torch.stack([f.terminated[0] & f.valid[0] for f in fragments])
    assert ended.any()
    assert torch.equal(torch.stack([f.priority for f in fragments]).isnan(), ~ended)


def test_who_is_not_asked_notes_nothing() -> None:
    world = cartpole()
    algorithm = DQN(DQNConfig(unroll=6, batch=24), MLP, task_of(world))
    (fragment,) = played(algorithm, world, 1)
    assert (fragment.extras, fragment.priority) == ({}, None)
    assert alone.make(prioritised=True).needs.replay.priorities.first
    assert not teams.make(prioritised=True).needs.replay.priorities.first


@pytest.mark.parametrize("placement", [{"actors": 2}, {"actors": 2, "inference": "worker"}])
def test_equal_bits_wherever_actors_and_policies_live(tmp_path: Path, placement: dict[str, Any]) -> None:
    asked = {"prioritised": True, "burn_in": 2, "n_step": 2, "rescale": True}
    tree = alone.experiment(placement=placement, model={"name": "gru"}, algorithm=asked)
    one, two = (
        alone.weights(shoal.train(tree, root=tmp_path / on, quiet=True, on=on).folder) for on in ("inline", "local")
    )
    assert int(one["agent/updates"]) > 0
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_they_change_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = alone.experiment(algorithm={"prioritised": True})
    with_them = alone.weights(shoal.train(tree, root=tmp_path / "with", quiet=True, on="inline").folder)
    monkeypatch.setattr(DQN, "prepare", lambda self, fragment: fragment)
    without = alone.weights(shoal.train(tree, root=tmp_path / "without", quiet=True, on="inline").folder)
    assert not all(torch.equal(with_them[name], without[name]) for name in without)
