"""Recurrent replay: burn-in against networks that are stepped row by row, on batches and on what actors really post."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.q_learning.dqn import DQN, DQNConfig
from shoal.api.experiment import EnvConfig
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.base.tree import tree_map
from shoal.envs import make_env
from tests.algorithms.batches import GRU, MLP
from tests.algorithms.played import played, task_of
from tests.algorithms.q_learning import test_q_learning as alone

LSTM = Named(name="lstm", hidden=[8])  # type: ignore[call-arg]
BURN_IN = 3


def batch_with_burn_in(algorithm: DQN) -> Fragment:
    """The batch of the plain tests behind three rows of history, one of them a start, from a state that is not zero."""
    late = alone.make(GRU, unroll=algorithm.settings.unroll, n_step=algorithm.settings.n_step)
    batch = alone.batch_of(late)
    random = np.random.default_rng(7)

    def before(column: Tensor) -> Tensor:
        shape = (BURN_IN, *column.shape[1:])
        if column.is_floating_point():
            return torch.cat([torch.from_numpy(random.normal(size=shape).astype(np.float32)), column])
        return torch.cat([torch.zeros(shape, dtype=column.dtype), column])

    rows = {name: tree_map(before, column) for name, column in vars(batch).items() if name not in ("state", "lanes")}
    rows = {name: rows.get(name, column) for name, column in vars(batch).items()}
    longer = Fragment(**rows)
    longer.first[BURN_IN, 2:] = False  # lanes 2 and 3 go on from the history
    longer.first[1, 3] = True  # and that of lane 3 starts inside
    longer.state = tree_map(torch.randn_like, algorithm.policy.initial_state(4))
    return longer


def stepped(policy: Any, batch: Fragment, burn_in: int) -> Tensor:
    """Values `[R, B, choices]`, one row at a time; the state is cut from its graph where the burn-in ends."""
    state, rows = batch.state, []
    for row in range(len(batch.first)):
        if row == burn_in:
            state = tree_map(Tensor.detach, state)
        here = slice(row, row + 1)
        values, state = policy.values(batch.observation[here], state, batch.first[here])
        rows.append(values)
    return torch.cat(rows)


def slow_loss(algorithm: DQN, batch: Fragment) -> tuple[Tensor, list[list[float]]]:
    """Half the squared errors of the rows to learn from, and their sizes by lane."""
    config = algorithm.settings
    online = stepped(algorithm.policy, batch, config.burn_in)
    with torch.no_grad():
        target = stepped(algorithm.target.module, batch, config.burn_in)
    errors, lanes = [], [[] for _ in range(4)]
    for row, lane in np.argwhere(batch.valid.numpy()):
        total, discount, at = 0.0, 1.0, row
        for _ in range(config.n_step):
            total += discount * float(batch.reward[at, lane])
            ends = bool(batch.terminated[at, lane]), bool(batch.truncated[at, lane])
            discount *= 0.0 if ends[0] else config.gamma
            at += 1
            if any(ends):
                break
        best = max(
            np.flatnonzero(batch.action_mask[at, lane]), key=lambda choice: float(online[at, lane, choice].detach())
        )
        error = online[row, lane, batch.action[row, lane]] - (total + discount * float(target[at, lane, best]))
        errors.append(0.5 * error**2)
        lanes[lane].append(abs(float(error.detach())))
    return torch.stack(errors).mean(), lanes


@pytest.mark.parametrize("model", [GRU, LSTM], ids=["gru", "lstm"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_update_against_networks_stepped_row_by_row(model: Named, n_step: int) -> None:
    algorithm = alone.make(model, burn_in=BURN_IN, n_step=n_step, loss="squared", prioritised={"eta": 0.9})
    with torch.no_grad():
        algorithm.target.flat.parameters.mul_(-1.5)
    batch = batch_with_burn_in(algorithm)
    batch.weights, batch.keys = torch.ones(4), torch.arange(4)
    loss, lanes = slow_loss(algorithm, batch)
    assert sum(map(len, lanes)) >= 20
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(algorithm.policy.parameters()))])
    update = algorithm.update(batch, SoloLearner())
    assert update.metrics["train/loss"].value == pytest.approx(float(loss.detach()), rel=1e-4)
    assert update.metrics["train/grad_norm"].value == pytest.approx(float(gradient.norm()), rel=1e-4)
    expected = [0.9 * max(errors) + 0.1 * float(np.mean(errors)) for errors in lanes]
    assert update.priorities is not None
    assert update.priorities.tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("burn_in", "reached"), [(BURN_IN, False), (0, True)])
def test_no_gradient_reaches_the_burn_in(burn_in: int, reached: bool) -> None:
    """Without burn-in the same rows do get one: it is the burn-in that keeps it out."""
    algorithm = alone.make(GRU, burn_in=burn_in)
    batch = batch_with_burn_in(alone.make(GRU, burn_in=BURN_IN))
    batch.valid[:BURN_IN] = False
    batch.observation.requires_grad_()
    found_values = algorithm._evaluate(batch)
    found_values.chosen[found_values.counts].sum().backward()
    assert batch.observation.grad is not None
    moved = batch.observation.grad.abs().sum((1, 2)) > 0
    assert moved[:BURN_IN].tolist() == [reached] * BURN_IN
    assert bool(moved[BURN_IN])


def test_a_model_without_memory_does_not_look_at_the_burn_in() -> None:
    short, longer = alone.make(MLP), alone.make(MLP, burn_in=BURN_IN)
    batch = batch_with_burn_in(alone.make(GRU, burn_in=BURN_IN))
    batch.state = None
    behind = batch.map(lambda t: t[BURN_IN:] if t.ndim > 1 else t)
    for a, b in zip(short._evaluate(behind), longer._evaluate(batch), strict=True):
        assert torch.equal(a, b)


# ---------------------------------------------------------------- what actors post


def agent(burn_in: int, model: Named, world: Any, **settings: Any) -> DQN:
    config = DQNConfig(unroll=6, batch=24, burn_in=burn_in, epsilon=1.0, **settings)
    algorithm = DQN(config, model, task_of(world))
    with torch.no_grad():
        algorithm.flat.parameters.mul_(2.0)  # memory that matters
    return algorithm


def cartpole(copies: int = 4) -> Any:
    """Episodes of 8 to 15 steps: of both kinds of end, inside sequences and across them."""
    return make_env(EnvConfig(id="CartPole-v1", kwargs={"max_episode_steps": 15}), copies)


def whole_history(policy: Any, fragments: list[Fragment], lane: int) -> dict[bytes, Tensor]:
    """Every decision's observation -> its values, from one unroll over all that the lane lived through."""
    rows = [
        (f.observation[t, lane], f.first[t, lane]) for f in fragments for t in range(len(f.first)) if f.valid[t, lane]
    ]
    seen, first = torch.stack([row[0] for row in rows]).unsqueeze(1), torch.stack([row[1] for row in rows]).unsqueeze(1)
    with torch.no_grad():
        values, _ = policy.values(seen, policy.initial_state(1), first)
    return {seen[i, 0].numpy().tobytes(): values[i, 0] for i in range(len(rows))}


@pytest.mark.parametrize("model", [GRU, LSTM], ids=["gru", "lstm"])
@pytest.mark.parametrize(("burn_in", "n_step"), [(0, 1), (0, 3), (5, 1), (4, 3)])
def test_burn_in_ends_in_the_state_of_a_whole_unroll(model: Named, burn_in: int, n_step: int) -> None:
    world = cartpole()
    algorithm = agent(burn_in, model, world, n_step=n_step)
    fragments = played(algorithm, world, 20)
    assert any(bool((f.truncated & f.valid).any()) for f in fragments)
    assert any(bool((f.terminated & f.valid).any()) for f in fragments)
    for lane in range(4):
        known = whole_history(algorithm.policy, fragments, lane)
        for fragment in fragments:
            values, _ = algorithm._values(fragment.observation, fragment)
            for row in torch.nonzero(fragment.valid[algorithm.behind, lane]).flatten().tolist():
                seen = fragment.observation[burn_in + row, lane].numpy().tobytes()
                assert torch.allclose(values[row, lane], known[seen], atol=1e-5)


def error_of_stale_state(burn_in: int) -> float:
    """How far values stray, first row behind the burn-in, when parameters moved on after the state was stored."""
    world = make_env(EnvConfig(id="CartPole-v1", wrappers=["shoal.envs.partial:HideVelocity"]), 8)
    algorithm = agent(burn_in, GRU, world)
    fragments = played(algorithm, world, 12)
    torch.manual_seed(5)
    with torch.no_grad():
        algorithm.flat.parameters.add_(0.3 * torch.randn_like(algorithm.flat.parameters))
    strayed, sizes = [], []
    for lane in range(8):
        known = whole_history(algorithm.policy, fragments, lane)
        for fragment in fragments[2:]:  # those with a whole history behind them
            values, _ = algorithm._values(fragment.observation, fragment)
            if fragment.valid[burn_in, lane] and not fragment.first[burn_in, lane]:
                true = known[fragment.observation[burn_in, lane].numpy().tobytes()]
                strayed.append(float((values[0, lane] - true).abs().max().detach()))
                sizes.append(float(true.abs().max()))
    assert len(strayed) > 50
    return float(np.mean(strayed) / np.mean(sizes))


def test_burn_in_repairs_a_stale_state() -> None:
    stale, repaired, more = (error_of_stale_state(rows) for rows in (0, 4, 8))
    assert stale > 0.05, "the state that was stored is not that of the newest parameters"
    assert repaired < 0.5 * stale
    assert more < repaired
