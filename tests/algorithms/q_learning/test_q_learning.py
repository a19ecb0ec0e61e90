"""Q-learning: targets against slow numpy straight from the papers, exploration, target networks, the trainer that replays."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.q_learning.dqn import DQN, DQNConfig
from shoal.algorithms.q_learning.q_learning import QLearning
from shoal.api.algorithm import Task
from shoal.api.experiment import Experiment
from shoal.api.fragment import Fragment
from shoal.api.policy import Request
from shoal.base.config import Named
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from tests.algorithms.batches import GROUP, GRU, MLP, learned, summed

APART = Named(name="mlp", hidden=[8], activation="elu")  # type: ignore[call-arg]
"""Without memory, and without gradients by hand."""


def make(model: Named = MLP, **settings: Any) -> DQN:
    return DQN(DQNConfig(**{"unroll": 6, "batch": 24, **settings}), model, Task(GROUP, 4, 1))


def batch_of(algorithm: DQN, *, masked: bool = True) -> Fragment:
    """Four lanes in the builder's layout: an end of each kind, the final observation of a truncation, unfinished rows behind."""
    steps, rows = algorithm.settings.n_step, algorithm.settings.unroll + algorithm.settings.n_step
    random = np.random.default_rng(4)
    shape = (rows, 4)
    valid = np.ones(shape, bool)
    valid[rows - steps :] = False
    ends = np.zeros((2, *shape), bool)
    ends[0, 1, 1] = ends[1, 2, 0] = ends[0, 4, 2] = True
    valid[3, 0] = False
    first = np.zeros(shape, bool)
    first[0], first[4, 0], first[2, 1], first[5, 2] = True, True, True, True
    mask = random.random((*shape, 4)) < 0.6
    action = random.integers(0, 4, shape)
    mask[np.arange(rows)[:, None], np.arange(4), action] = True
    batch = Fragment(
        observation=random.normal(size=(*shape, 3)).astype(np.float32), action=action,
        reward=random.normal(size=shape).astype(np.float32), terminated=ends[0], truncated=ends[1], valid=valid,
        first=first, version=np.zeros(shape, np.int64), extras={}, action_mask=mask if masked else None, state=None,
        lanes=np.arange(4),
    ).map(torch.from_numpy)  # fmt: skip
    batch.state = algorithm.policy.initial_state(4)
    return batch


def slow_targets(algorithm: DQN, batch: Fragment) -> dict[tuple[int, int], float]:
    """Row by row: add up rewards until the episode ends or n are in, then value the best allowed action."""
    config = algorithm.settings
    seen = (batch.observation, batch.state, batch.first)
    with torch.no_grad():
        online, target = (policy.values(*seen)[0].numpy() for policy in (algorithm.policy, algorithm.target.module))
    chooser = online if config.double else target
    found = {}
    for row, lane in np.argwhere(batch.valid.numpy()):
        total, discount, at = summed(batch, row, lane, config.gamma, config.n_step)
        allowed = range(4) if batch.action_mask is None else np.flatnonzero(batch.action_mask[at, lane])
        best = max(allowed, key=lambda choice: chooser[at, lane, choice])
        found[row, lane] = total + discount * float(target[at, lane, best])
    return found


@pytest.mark.parametrize("settings", [{}, {"n_step": 3}, {"double": False, "n_step": 2}, {"dueling": True}])
@pytest.mark.parametrize("model", [MLP, APART, GRU], ids=["mlp", "apart", "gru"])
@pytest.mark.parametrize("masked", [False, True])
def test_targets(settings: dict[str, Any], model: Named, masked: bool) -> None:
    algorithm = make(model, **settings)
    with torch.no_grad():
        algorithm.target.flat.parameters.mul_(-1.5)  # so that it disagrees about what is best
    batch = batch_of(algorithm, masked=masked)
    found_values = algorithm._evaluate(batch)
    chosen, target = found_values.chosen, algorithm.targets(batch, found_values)
    slow = slow_targets(algorithm, batch)
    assert len(slow) >= 20
    for (row, lane), expected in slow.items():
        assert float(target[row, lane]) == pytest.approx(expected, abs=1e-5)
    values, _ = algorithm.policy.values(batch.observation, batch.state, batch.first)
    assert torch.equal(chosen[2, 3], values[2, 3, batch.action[2, 3]])
    metrics = algorithm.update(batch, SoloLearner()).metrics
    assert metrics["train/target_mean"].value == pytest.approx(np.mean(list(slow.values())), abs=1e-5)


@pytest.mark.parametrize("settings", [{"n_step": 3}, {"double": False}])
def test_what_no_target_looks_at_is_not_computed(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, rows = make(APART, **settings), {"online": 0, "target": 0, "graph": 0}
    batch = batch_of(algorithm)

    def counted(name: str, policy: Any) -> Any:
        def values(observation: Any, state: Any, first: Any) -> Any:
            rows[name] += len(first)
            rows["graph"] += len(first) if torch.is_grad_enabled() else 0
            return type(policy).values(policy, observation, state, first)

        return values

    for name, policy in (("online", algorithm.policy), ("target", algorithm.target.module)):
        monkeypatch.setattr(policy, "values", counted(name, policy))
    algorithm._evaluate(batch)
    every, most = len(batch.first), 6 + (algorithm.settings.n_step > 1)
    assert rows == {"online": every if algorithm.settings.double else most, "target": every - 1, "graph": most}


@pytest.mark.parametrize("settings", [{"n_step": 3}, {"n_step": 3, "double": False}, {}])
def test_rows_apart_are_learned_from_as_all_together(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the one row more that a lane has which is cut off at the end of its fragment."""
    apart, together = make(APART, **settings), make(APART, **settings)
    batch = batch_of(apart)
    if "n_step" in settings:
        batch.valid[6] = True
    monkeypatch.setattr(together, "_apart", lambda seen, drawn: QLearning._values(together, seen, drawn))
    for algorithm in (apart, together):
        algorithm.update(batch, SoloLearner())
    torch.testing.assert_close(apart.flat.parameters, together.flat.parameters, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("loss", "expected"), [("huber", [0.125, 2.5]), ("squared", [0.125, 4.5])])
def test_losses(loss: Any, expected: list[float]) -> None:
    from shoal.algorithms.q_learning.q_learning import td_loss

    zero = torch.zeros(1)
    assert [float(td_loss(zero, zero + error, loss)) for error in (0.5, -3.0)] == pytest.approx(expected)


# ---------------------------------------------------------------- acting


def ask(algorithm: DQN, noise: torch.Tensor, mask: torch.Tensor | None, *, explore: bool = True) -> torch.Tensor:
    rows = len(noise)
    request = Request(torch.zeros(rows, 3), torch.ones(rows, dtype=torch.bool), noise, None, mask)
    with torch.no_grad():
        return algorithm.policy.act(request, explore=explore).action


def test_epsilon_is_the_share_of_chance_and_every_allowed_choice_is_alike() -> None:
    algorithm = make(epsilon=0.4)
    noise = torch.from_numpy(np.random.default_rng(0).random((20_000, 2), np.float32))
    mask = torch.tensor([True, False, True, True]).expand(20_000, 4)
    best = int(ask(algorithm, noise[:1], mask[:1], explore=False))
    counts = Counter(ask(algorithm, noise, mask).tolist())
    assert set(counts) == {0, 2, 3}
    for choice, count in counts.items():
        assert count / 20_000 == pytest.approx(0.4 / 3 + 0.6 * (choice == best), abs=0.015)
    assert ask(algorithm, noise[:9], mask[:9], explore=False).tolist() == [best] * 9


def test_epsilon_follows_its_schedule_and_travels_with_the_version() -> None:
    algorithm = make(epsilon={"start": 1.0, "end": 0.2, "steps": 100})
    assert float(algorithm.policy.epsilon) == 1.0
    learner = SoloLearner()
    learner.steps = 50
    metrics = algorithm.update(batch_of(algorithm), learner).metrics
    assert metrics["train/epsilon"].value == pytest.approx(0.6)
    other = make()
    other.flat.load(algorithm.flat.block)
    assert float(other.policy.epsilon) == pytest.approx(0.6)


# ---------------------------------------------------------------- target network


def test_a_hard_target_is_copied_now_and_then_and_a_soft_one_a_little_each_time() -> None:
    hard, soft = make(target_every=2), make(tau=0.25)
    start = hard.flat.parameters.clone()
    for algorithm in (hard, soft):
        algorithm.update(batch_of(algorithm), SoloLearner())
    assert torch.equal(hard.target.flat.parameters, start)
    assert torch.allclose(soft.target.flat.parameters, start.lerp(soft.flat.parameters, 0.25))
    hard.update(batch_of(hard), SoloLearner())
    assert torch.equal(hard.target.flat.parameters, hard.flat.parameters)
    assert not torch.equal(hard.flat.parameters, start)


@pytest.mark.parametrize("n_step", [1, 3])
def test_each_copy_into_the_target_lets_values_reach_n_steps_further(n_step: int) -> None:
    """One situation without end, where every decision costs 1: after k copies its value is minus n (k + 1) discounted costs."""
    algorithm = make(n_step=n_step, gamma=0.9, target_every=200, lr=0.02)
    with torch.no_grad():
        algorithm.target.flat.parameters.zero_()
    batch = batch_of(algorithm, masked=False)
    batch.observation.fill_(0.0)
    batch.reward.fill_(-1.0)
    batch.terminated.fill_(False)
    batch.truncated.fill_(False)
    for copies in range(4):
        for _ in range(200):
            with torch.no_grad():
                found = algorithm._evaluate(batch)
            algorithm.update(batch, SoloLearner())
        reached = n_step * (copies + 1)
        assert float(found.chosen[found.counts].mean()) == pytest.approx(-(1 - 0.9**reached) / 0.1, rel=0.02)


def test_state_goes_on() -> None:
    one, other = make(), make()
    one.update(batch_of(one), SoloLearner())
    other.load_state_dict({name: value.clone() for name, value in one.state_dict().items()})
    for algorithm in (one, other):
        algorithm.update(batch_of(algorithm), SoloLearner())
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_a_batch_is_whole_sequences() -> None:
    with pytest.raises(InputError, match=r"algorithm.batch = 20 is no multiple of algorithm.unroll = 6: try 18"):
        make(batch=20)


# ---------------------------------------------------------------- runs


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": "dqn", "unroll": 4, "batch": 32, "warmup": 100, "updates": 3, "capacity": 160},
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": 12},
        "placement": {},
        "name": "replayed",
    }
    for name, values in sections.items():
        tree[name] = {**tree[name], **values}
    return Experiment.parse(tree)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("placement", [{"actors": 1}, {"actors": 2, "inference": "worker"}, {"trainers": 2}])
def test_equal_bits_in_processes(tmp_path: Path, placement: dict[str, Any]) -> None:
    tree = experiment(placement=placement, model={"name": "gru"}, algorithm={"burn_in": 2, "n_step": 2})
    inline = shoal.train(tree, root=tmp_path / "inline", quiet=True, on="inline")
    local = shoal.train(tree, root=tmp_path / "local", quiet=True, on="local")
    one, two = weights(inline.folder), weights(local.folder)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert int(one["agent/updates"]) > 0


def test_the_books_of_a_trainer_that_replays(tmp_path: Path) -> None:
    outcome = shoal.train(experiment(), root=tmp_path, quiet=True, on="inline")
    rows = written(outcome.folder)
    last = rows[-1]
    assert last["rows/trained"] == 0
    assert last["rows/produced"] == last["rows/inserted"] + last["rows/in_flight"]
    assert last["rows/inserted"] == last["replay/held"] + last["replay/evicted"]
    assert last["replay/held"] <= 160 < last["rows/inserted"]
    warm = [row["rows/inserted"] >= 100 for row in rows]
    assert [row["train/updates_per_row"] > 0 for row in rows] == warm
    assert [row["update"] for row in rows] == list(range(1, 13))
    assert int(weights(outcome.folder)["agent/updates"]) == 3 * sum(warm)


def test_a_resumed_run_without_its_buffer_fills_it_anew(tmp_path: Path) -> None:
    whole = experiment()
    without = whole.model_copy(update={"checkpoint": whole.checkpoint.model_copy(update={"replay": False})})
    outcome = shoal.train(without, trial="one", root=tmp_path, quiet=True, on="inline")
    before = int(weights(outcome.folder)["agent/updates"])
    inserted = written(outcome.folder)[-1]["rows/inserted"]
    shoal.resume("replayed", "one", overrides=["stop.updates=18"], root=tmp_path, quiet=True, on="inline")
    rows = written(outcome.folder)[12:]
    assert [row["update"] for row in rows] == list(range(13, 19))
    assert rows[0]["replay/held"] == rows[0]["rows/inserted"] - inserted <= 32
    warm = sum(row["replay/held"] >= 100 for row in rows)
    assert 0 < warm < 6
    assert int(weights(outcome.folder)["agent/updates"]) == before + 3 * warm


@pytest.mark.parametrize(("world", "model"), [("shoal/chain", "mlp"), ("shoal/recall", "gru")])
def test_toy_worlds_are_solved(tmp_path: Path, world: str, model: str) -> None:
    settings = {"name": "dqn", "epsilon": {"start": 1.0, "end": 0.1, "steps": 4000}, "warmup": 200, "lr": 3e-3}
    assert learned(tmp_path, world, settings, {"name": model, "hidden": [32]}, 80) >= 0.95
