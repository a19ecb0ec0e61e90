"""Mixers and the learners of teams: against slow numpy, and on the game that tells them apart."""

from __future__ import annotations

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import shoal
from shoal.algorithms.q_learning.qmix import QMIX, QMIXConfig
from shoal.api.algorithm import Task
from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment, load_experiment
from shoal.api.fragment import Fragment
from shoal.api.policy import Request
from shoal.base.config import Named
from shoal.checkpoints.store import CheckpointStore
from shoal.models.mixers import Monotonic, Sum
from shoal.recipes import find
from tests.algorithms.batches import GROUP, GRU, MLP

TEAM = AgentGroup(("a", "b", "c"), GROUP.observation_space, GROUP.action_space)
ROWS, LANES, AGENTS, CHOICES = 7, 4, 3, 4


def make(model: Named = MLP, **settings: Any) -> QMIX:
    world = spaces.Box(-9, 9, (5,), np.float32)
    return QMIX(QMIXConfig(**{"unroll": 6, "batch": 24, **settings}), model, Task(TEAM, LANES, 1, state_space=world))


def batch_of(algorithm: QMIX) -> Fragment:
    """Random teams: some agents do not act, one episode ends, one is cut."""
    random = np.random.default_rng(4)
    shape = (ROWS, LANES)
    valid = np.ones(shape, bool)
    valid[-1] = valid[3, 0] = False
    ends = np.zeros((2, *shape), bool)
    ends[0, 1, 1] = ends[1, 2, 0] = True
    first = np.zeros(shape, bool)
    first[0], first[4, 0], first[2, 1] = True, True, True
    acting = random.random((*shape, AGENTS)) < 0.7
    acting[..., 0] = True
    mask = random.random((*shape, AGENTS, CHOICES)) < 0.6
    batch = Fragment(
        observation={
            "agents": random.normal(size=(*shape, AGENTS, 3)).astype(np.float32),
            "acting": acting.astype(np.int8),
            "state": random.normal(size=(*shape, 5)).astype(np.float32),
        },
        action=random.integers(0, CHOICES, (*shape, AGENTS)), reward=random.normal(size=shape).astype(np.float32),
        terminated=ends[0], truncated=ends[1], valid=valid, first=first, version=np.zeros(shape, np.int64), extras={},
        action_mask=mask.reshape(*shape, -1), state=None, lanes=np.arange(LANES),
    ).map(torch.from_numpy)  # fmt: skip
    batch.state = algorithm.policy.initial_state(LANES)
    return batch


def slow_mix(mixer: Any, utilities: np.ndarray, world: np.ndarray) -> float:
    """Equations 4 and 5 of the paper, for one team."""
    if isinstance(mixer, Sum):
        return float(utilities.sum())
    with torch.no_grad():
        seen = torch.from_numpy(world)
        weights = np.abs(mixer.weights_in(seen).numpy()).reshape(len(utilities), -1)
        inner = utilities @ weights + mixer.bias_in(seen).numpy()
        inner = np.where(inner > 0, inner, np.exp(inner) - 1)
        return float(inner @ np.abs(mixer.weights_out(seen).numpy()) + mixer.bias_out(seen).numpy()[0])


@pytest.mark.parametrize("mixer", ["qmix", "vdn", "none"])
@pytest.mark.parametrize("model", [MLP, GRU], ids=["mlp", "gru"])
@pytest.mark.parametrize("double", [True, False])
def test_targets(mixer: str, model: Named, double: bool) -> None:
    algorithm = make(model, mixer=mixer, double=double)
    with torch.no_grad():
        algorithm.target.flat.parameters.mul_(-1.5)
    batch = batch_of(algorithm)
    online, target = algorithm.policy, algorithm.target.module
    seen = (batch.observation["agents"], batch.state, batch.first)
    with torch.no_grad():
        values, later = (policy.values(*seen)[0].numpy() for policy in (online, target))
        found_values = algorithm._evaluate(batch)
        targets = algorithm.targets(batch, found_values)
    mask = batch.action_mask.numpy().reshape(ROWS, LANES, AGENTS, CHOICES)
    world, acting = batch.observation["state"].numpy(), batch.observation["acting"].numpy()
    for row, lane in np.argwhere(batch.valid.numpy()):
        chosen, best = np.zeros(AGENTS, np.float32), np.zeros(AGENTS, np.float32)
        for agent in range(AGENTS):
            chosen[agent] = values[row, lane, agent, batch.action[row, lane, agent]] * acting[row, lane, agent]
            allowed = np.flatnonzero(mask[row + 1, lane, agent])
            allowed = allowed if len(allowed) else np.arange(CHOICES)
            chooser = (values if double else later)[row + 1, lane, agent]
            choice = max(allowed, key=lambda index: chooser[index])
            best[agent] = later[row + 1, lane, agent, choice] * acting[row + 1, lane, agent]
        goes_on = 0.0 if batch.terminated[row, lane] else 0.99
        reward = float(batch.reward[row, lane])
        if mixer == "none":
            expected, wanted = chosen, reward + goes_on * best
        else:
            expected = slow_mix(online.mixer, chosen, world[row, lane])
            wanted = reward + goes_on * slow_mix(target.mixer, best, world[row + 1, lane])
        assert found_values.chosen[row, lane].numpy() == pytest.approx(expected, abs=1e-4)
        assert targets[row, lane].numpy() == pytest.approx(wanted, abs=1e-4)
    if mixer == "none":
        assert torch.equal(found_values.counts, batch.valid.unsqueeze(-1) & batch.observation["acting"].bool())


def test_a_team_never_loses_by_what_an_agent_gains() -> None:
    torch.manual_seed(0)
    mixer = Monotonic(3, 5, embedding=8, hidden=[16])
    utilities = torch.randn(500, 3, requires_grad=True)
    mixer(utilities, torch.randn(500, 5) * 3).sum().backward()
    assert utilities.grad is not None
    assert (utilities.grad >= 0).all()
    assert (utilities.grad > 0).float().mean() > 0.9


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_a_mixer_starts_close_to_the_sum_whatever_the_scale_of_the_state(scale: float) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        mixer = Monotonic(2, 24, embedding=32, hidden=[64])
        utilities = torch.zeros(200, 2, requires_grad=True)
        total = mixer(utilities, torch.randn(200, 24) * scale)
        total.sum().backward()
        assert utilities.grad is not None
        assert float(total.detach().abs().mean()) < 1.0
        assert 0.5 < float(utilities.grad.mean()) < 3.0


@pytest.mark.parametrize("mixer", ["qmix", "vdn"])
def test_who_does_not_act_adds_nothing(mixer: str) -> None:
    algorithm = make(mixer=mixer)
    batch, other = batch_of(algorithm), batch_of(algorithm)
    idle = ~batch.observation["acting"].bool()
    assert idle.any()
    other.observation["agents"][idle] += 3.0
    with torch.no_grad():
        one, two = algorithm._evaluate(batch), algorithm._evaluate(other)
    assert torch.equal(one.chosen, two.chosen)
    assert torch.equal(one.following, two.following)
    other.observation["agents"][~idle] += 3.0
    with torch.no_grad():
        assert not torch.equal(one.chosen, algorithm._evaluate(other).chosen)


def test_agents_differ_by_their_numbers_alone() -> None:
    observation = torch.ones(1, 2, AGENTS, 3)
    for ids in (True, False):
        values, _ = make(agent_ids=ids).policy.values(observation, None, torch.ones(1, 2, dtype=torch.bool))
        assert torch.allclose(values[0, 0, 0], values[0, 0, 1]) != ids
        torch.testing.assert_close(values[0, 0], values[0, 1])


def test_masks_bind_every_agent_and_memory_is_its_own() -> None:
    policy = make(GRU, epsilon=0.5).policy
    mask = torch.zeros(200, AGENTS, CHOICES, dtype=torch.bool)
    for agent in range(AGENTS):
        mask[:, agent, agent : agent + 2] = True
    observation = {"agents": torch.randn(200, AGENTS, 3), "acting": torch.ones(200, AGENTS)}
    noise = torch.rand(200, policy.noise_size, generator=torch.Generator().manual_seed(1))
    first = torch.ones(200, dtype=torch.bool)
    with torch.no_grad():
        request = Request(observation, first, noise, policy.initial_state(200), mask.flatten(1))
        decision = policy.act(request, explore=True)
    assert decision.action.shape == (200, AGENTS)
    assert mask.gather(-1, decision.action.unsqueeze(-1)).all()
    assert decision.state.shape == (200, AGENTS, 8)
    assert not torch.equal(decision.state[:, 0], decision.state[:, 1])


# ---------------------------------------------------------------- runs


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


@pytest.mark.parametrize("placement", [{"actors": 2, "inference": "worker"}, {"trainers": 2}])
def test_equal_bits_in_processes(tmp_path: Path, placement: dict[str, Any]) -> None:
    tree = Experiment.parse(
        {
            "env": {"id": "shoal/two-step", "num_envs": 8},
            "algorithm": {"name": "qmix", "unroll": 4, "batch": 32, "warmup": 50, "updates": 2, "burn_in": 1},
            "model": {"name": "gru", "hidden": [16]},
            "stop": {"updates": 8},
            "placement": placement,
        }
    )
    inline = shoal.train(tree, root=tmp_path / "inline", quiet=True, on="inline")
    local = shoal.train(tree, root=tmp_path / "local", quiet=True, on="local")
    one, two = weights(inline.folder), weights(local.folder)
    assert int(one["agent/updates"]) > 0
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_shuffled_teams_are_refused() -> None:
    from shoal.base.errors import InputError
    from shoal.program.expand import expand

    tree = {"env": {"id": "shoal/two-step"}, "algorithm": {"name": "qmix"}, "deal": "shuffled"}
    with pytest.raises(InputError, match="learns as a team"):
        expand(Experiment.parse(tree))


# ---------------------------------------------------------------- the two-step game

ENDS = {"qmix": 8.0, "vdn": 7.0, "none": 7.0}
"""Mixer -> the game's return of greedy play after uniform exploration (Rashid et al. 2018, table 1)."""


def two_step(mixer: str, seed: int, steps: int = 20_000) -> tuple[float, int]:
    """The game's own return of 20 greedy episodes, and the steps it took."""
    overrides = [f"seed={seed}", f"algorithm.mixer={mixer}", f"stop.steps={steps}"]
    with tempfile.TemporaryDirectory() as root:
        outcome = shoal.train(load_experiment(find("two-step-game"), overrides), root=root, on="inline", quiet=True)
        scores, _ = shoal.evaluate(str(outcome.folder), episodes=20, root=root)
    assert scores.game is not None
    assert scores.mean == 2 * scores.game, "the sum over both agents"
    return scores.game, outcome.steps


@pytest.mark.parametrize("mixer", ENDS)
def test_two_step_game(mixer: str) -> None:
    assert two_step(mixer, 1, 8_000)[0] == ENDS[mixer]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mixer", ENDS)
def test_two_step_game_five_seeds(mixer: str) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(two_step, [mixer] * 5, range(1, 6)))
    print(
        f"\n| `{mixer}` | {', '.join(f'{score:g}' for score, _ in results)} | {max(steps for _, steps in results):,} |"
    )
    assert results == [(ENDS[mixer], 20_000)] * 5
