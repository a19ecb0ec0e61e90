"""Every algorithm in bfloat16: its networks alone are rounded, kernels stand aside, and a copy to act with knows nothing of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from shoal.algorithms.actor_critic.ppo import PPO
from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.q_learning.dqn import DQN
from shoal.api.algorithm import Algorithm
from shoal.base.arithmetic import PLAIN, Arithmetic, networks_of
from shoal.testing.device import DEVICE
from shoal.testing.experience import batch_of
from tests.algorithms.test_algorithm_devices import saved, updated
from tests.testing.suites import CASES, Case

BF16 = Arithmetic(bf16=True)


def networks(algorithm: Algorithm) -> int:
    return sum(len(list(networks_of(flat.module))) for flat in algorithm.flats())


def floats(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_update_in_bf16(case: Case) -> None:
    """The numbers move, by a few of its eight bits; what is kept has the types that it had."""
    exact, rounded, there = case.build(), case.build(), case.build()
    there.to(DEVICE)
    for algorithm in (rounded, there):
        algorithm.compute_by(BF16)
    batches = [batch_of(exact, case.task, seed=seed, masked=case.masked) for seed in (1, 2)]
    before = floats(saved(exact))
    for algorithm in (exact, rounded, there):
        updates = updated(algorithm, batches)
        assert all(torch.tensor(metric.value).isfinite() for update in updates for metric in update.metrics.values())
    one, other, third = (floats(saved(algorithm)) for algorithm in (exact, rounded, there))
    assert {name: tensor.dtype for name, tensor in one.items()} == {
        name: tensor.dtype for name, tensor in other.items()
    }
    moved = torch.cat([(one[name] - before[name]).flatten().double() for name in one])
    apart = torch.cat([(other[name] - one[name]).flatten().double() for name in one])
    if networks(rounded):
        assert apart.any(), "nothing was rounded"
    assert apart.norm() < 0.5 * moved.norm(), "it learned something else"
    for name, tensor in other.items():
        assert torch.allclose(third[name], tensor, 1e-2, 1e-4), f"{name}: {(third[name] - tensor).abs().max()}"


def test_which_networks_there_are() -> None:
    wanted = {"ppo": 2, "dqn": 2, "qmix": 2, "sac": 3}
    for name, count in wanted.items():
        first = next(case for case in CASES if case.name == name)
        assert networks(first.build()) == count, name
    recurrent = next(case for case in CASES if case.model["name"] == "gru")
    assert networks(recurrent.build()) == 1, "the central critic; the core sits on the observation"


def test_kernels_stand_aside_and_come_back() -> None:
    ppo, dqn = CASES[0].build(), next(case for case in CASES if case.name == "dqn").build()
    assert isinstance(ppo, PPO)
    assert isinstance(dqn, DQN)
    assert ppo.passes.kernel is not None
    assert ppo.policy.quick() is not None
    for algorithm in (ppo, dqn):
        algorithm.compute_by(BF16)
    assert ppo.passes.kernel is None
    assert ppo.policy.quick() is None
    assert dqn._by_hand is None
    for algorithm in (ppo, dqn):
        algorithm.compute_by(PLAIN)
    assert ppo.passes.kernel is not None
    assert dqn._by_hand is not None


def test_there_and_back_changes_nothing() -> None:
    case = CASES[0]
    still, changing = case.build(), case.build()
    changing.compute_by(BF16)
    changing.compute_by(PLAIN)
    batch = batch_of(still, case.task, seed=1, masked=False)
    for algorithm in (still, changing):
        updated(algorithm, [batch])
    assert all(torch.equal(tensor, saved(changing)[name]) for name, tensor in saved(still).items())


def test_a_gradient_that_is_not_finite_is_seen() -> None:
    case = CASES[0]
    algorithm = case.build()
    algorithm.compute_by(BF16)
    batch = batch_of(algorithm, case.task, seed=1, masked=False)
    batch.observation[0, 2] = float("nan")
    with pytest.raises(ArithmeticError):
        algorithm.update(batch, SoloLearner())
