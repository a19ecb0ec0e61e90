"""Q-learning from prioritised replay: weights and priorities against slow numpy, equal bits, toy environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.q_learning.q_learning import QLearning, td_loss
from shoal.api.experiment import Experiment
from shoal.api.fragment import Fragment
from shoal.base.config import Named, Schedule
from shoal.base.errors import InputError
from shoal.buffers.prioritised import PrioritisedReplay
from shoal.program.expand import expand
from shoal.program.report import plan_of
from shoal.rollout.plans import Plans
from shoal.workers.replay_shards import make_replay
from tests.algorithms.batches import GRU, MLP, learned
from tests.algorithms.q_learning import test_q_learning as alone
from tests.algorithms.q_learning import test_qmix as teams

WEIGHTS = [1.0, 0.25, 0.7, 0.1]


def weighed(batch: Fragment) -> Fragment:
    batch.weights, batch.keys = torch.tensor(WEIGHTS), torch.arange(4)
    return batch


def slow(algorithm: QLearning, batch: Fragment) -> tuple[float, list[float]]:
    """Row by row: the weighted loss, and priorities by equation 1 of Kapturowski et al. 2019."""
    found_values = algorithm._evaluate(batch)
    error = (found_values.chosen - algorithm.targets(batch, found_values)).detach().numpy()
    lanes: list[list[float]] = [[] for _ in WEIGHTS]
    losses = []
    for at in np.argwhere(found_values.counts.numpy()):
        size = abs(float(error[tuple(at)]))
        lanes[at[1]].append(size)
        made = 0.5 * size**2 if size < 1 or algorithm.settings.loss == "squared" else size - 0.5
        losses.append(WEIGHTS[at[1]] * made)
    assert min(map(min, lanes)) < 1 < max(map(max, lanes)), "both sides of Huber's bend"
    assert algorithm.settings.prioritised is not None
    eta = algorithm.settings.prioritised.eta
    return float(np.mean(losses)), [eta * max(errors) + (1 - eta) * float(np.mean(errors)) for errors in lanes]


@pytest.mark.parametrize("loss", ["huber", "squared"])
@pytest.mark.parametrize("eta", [0.9, 0.3])
@pytest.mark.parametrize(
    ("tests", "settings", "model"),
    [
        (alone, {}, MLP),
        (alone, {"n_step": 2}, GRU),
        (teams, {"mixer": "vdn"}, GRU),
        (teams, {"mixer": "none"}, MLP),
    ],
    ids=["dqn", "dqn-gru", "vdn", "none"],
)
def test_weights_and_priorities(tests: Any, settings: dict[str, Any], model: Named, eta: float, loss: str) -> None:
    algorithm = tests.make(model, loss=loss, prioritised={"eta": eta}, **settings)
    with torch.no_grad():
        algorithm.target.flat.parameters.mul_(-1.5)  # errors on both sides of 1
    batch = weighed(tests.batch_of(algorithm))
    expected, priorities = slow(algorithm, batch)
    update = algorithm.update(batch, SoloLearner())
    assert update.metrics["train/loss"].value == pytest.approx(expected, rel=1e-5)
    assert update.priorities is not None
    assert update.priorities.tolist() == pytest.approx(priorities, rel=1e-5)


@pytest.mark.parametrize("kind", ["huber", "squared"])
def test_gradients_are_weighted(kind: Any) -> None:
    error, weight = np.array([0.5, -3.0, 2.0]), np.array([1.0, 0.5, 0.2])
    chosen = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    td_loss(chosen, torch.from_numpy(-error), kind, torch.from_numpy(weight)).backward()
    slope = np.clip(error, -1, 1) if kind == "huber" else error
    assert chosen.grad is not None
    assert chosen.grad.tolist() == pytest.approx((weight * slope / 3).tolist())


def test_a_sequence_without_rows_has_no_priority() -> None:
    algorithm = alone.make(prioritised=True)
    batch = weighed(alone.batch_of(algorithm))
    batch.valid[:, 2] = False
    update = algorithm.update(batch, SoloLearner())
    assert update.priorities is not None
    assert (update.priorities > 0).tolist() == [True, True, False, True]


# ---------------------------------------------------------------- settings


def test_settings() -> None:
    assert alone.make().needs.replay.priorities is None
    assert alone.make(prioritised=False).needs.replay.priorities is None
    asked = alone.make(prioritised=True).needs.replay.priorities
    assert (asked.alpha, asked.beta) == (0.6, Schedule(start=0.4, end=1.0, steps=100_000))
    assert alone.make(prioritised={"alpha": 0.9, "beta": 0.5}).needs.replay.priorities.beta == 0.5


@pytest.mark.parametrize(
    ("prioritised", "message"),
    [
        ({"alpha": 2}, r"algorithm.prioritised.alpha = 2: should be less than or equal to 1"),
        ({"alfa": 0.5}, r"algorithm.prioritised.alfa = 0.5: there is no such key; .*alpha"),
        ({"beta": {"start": 0.4, "end": 1.0}}, r"algorithm.prioritised.beta has no end: give it `steps`"),
        (3, r"algorithm.prioritised = 3"),
    ],
)
def test_mistakes(prioritised: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        expand(alone.experiment(algorithm={"prioritised": prioritised}))


@pytest.mark.parametrize("prioritised", [False, True])
def test_the_plan_knows_the_bytes_of_the_buffer(prioritised: bool) -> None:
    program = expand(alone.experiment(algorithm={"prioritised": prioritised}))
    buffer = make_replay(program, Plans(program)["agent"], 0, program.trainers)
    assert buffer.nbytes == plan_of(program)["policies"]["agent"]["bytes_of_replay"]
    assert isinstance(buffer, PrioritisedReplay) == prioritised


# ---------------------------------------------------------------- runs


def run(root: Path, on: str = "inline", **sections: Any) -> dict[str, torch.Tensor]:
    return alone.weights(shoal.train(alone.experiment(**sections), root=root, quiet=True, on=on).folder)


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_equal_seeds_give_equal_bits(tmp_path: Path) -> None:
    asked = {"prioritised": {"alpha": 0.7, "beta": {"start": 0.4, "end": 1.0, "steps": 300}}}
    first = run(tmp_path / "first", algorithm=asked)
    assert int(first["agent/updates"]) > 0
    assert same(first, run(tmp_path / "second", algorithm=asked))
    assert not same(first, run(tmp_path / "even", algorithm={"prioritised": False}))
    assert not same(first, run(tmp_path / "other", algorithm={"prioritised": {"alpha": 0.1}}))


def test_equal_bits_in_processes(tmp_path: Path) -> None:
    sections = {
        "placement": {"trainers": 2},
        "model": {"name": "gru"},
        "algorithm": {"prioritised": True, "burn_in": 2, "n_step": 2},
    }
    assert same(run(tmp_path / "inline", **sections), run(tmp_path / "local", on="local", **sections))


def test_the_resolved_settings_can_be_run_again() -> None:
    program = expand(alone.experiment(algorithm={"prioritised": True}))
    again = expand(Experiment.parse(program.experiment.model_dump()))
    assert again.experiment == program.experiment
    assert Plans(again)["agent"].algorithm.needs == Plans(program)["agent"].algorithm.needs


@pytest.mark.parametrize(("world", "model"), [("shoal/chain", "mlp"), ("shoal/recall", "gru")])
def test_toy_worlds_are_solved(tmp_path: Path, world: str, model: str) -> None:
    epsilon = {"start": 1.0, "end": 0.1, "steps": 4000}
    beta = {"start": 0.4, "end": 1.0, "steps": 8000}
    settings = {"name": "dqn", "epsilon": epsilon, "warmup": 200, "lr": 3e-3, "prioritised": {"beta": beta}}
    assert learned(tmp_path, world, settings, {"name": model, "hidden": [32]}, 80) >= 0.95
