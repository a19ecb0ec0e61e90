"""Replicas of one trainer: equal to the bit, equal to one trainer that sees all rows, and wrong together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from shoal.algorithms.agreement import AllreduceLearner, adopt_shared, nbytes_beside, tally_nbytes
from shoal.algorithms.learner import Adam, SoloLearner
from shoal.api.algorithm import NonFiniteError
from shoal.base.errors import ShoalError
from shoal.base.flat import Flat
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import AbandonedError
from shoal.streams.transports.memory_tally import MemoryTally
from shoal.streams.transports.shm.shared_block import SharedBlock
from shoal.streams.transports.shm.tally import ShmTally
from tests.algorithms.agreement_replicas import Regression, allreduce, hogwild, replica, result, rows, train

ROOM = 4 * 1_000


def together(ranks: int, job: Callable[[AllreduceLearner, int], Any], nbytes: int = ROOM) -> list[Any]:
    """What each replica returned or raised, all in threads of this process."""
    tally = MemoryTally(ranks, nbytes)

    def run(rank: int) -> Any:
        try:
            return job(AllreduceLearner(tally, rank, 10.0), rank)
        except Exception as error:
            return error

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run, range(ranks)))


@pytest.mark.parametrize("ranks", [2, 3])
def test_replicas_stay_equal_to_the_bit(ranks: int) -> None:
    ends = together(ranks, lambda learner, rank: train(learner, rank, 50))
    assert isinstance(ends[0], str), ends[0]
    assert len(set(ends)) == 1
    assert ends[0] != together(1, lambda learner, rank: train(learner, rank, 50))[0], "they learn from one another"


def test_processes_and_threads_give_the_same_bits() -> None:
    tally = ShmTally(2, ROOM)
    with replica(allreduce, tally.handle, 0, 50) as one, replica(allreduce, tally.handle, 1, 50) as two:
        ends = {result(one), result(two)}
    assert ends == set(together(2, lambda learner, rank: train(learner, rank, 50)))


@pytest.mark.parametrize("sizes", [(16, 16), (3, 29), (32, 0), (5, 9, 18)])
@pytest.mark.parametrize("room", [ROOM, 64])  # in one piece, in many
def test_equals_one_trainer_with_all_rows(sizes: tuple[int, ...], room: int) -> None:
    def job(learner: AllreduceLearner, rank: int) -> list[Any]:
        learning, norms = Regression(), []
        for step in range(20):
            mine = rows(step, 32).split(list(sizes))[rank]
            norms.append(learner.step(learning.loss(mine), learning.optimiser, weight=len(mine)))
        return [learning.flat.parameters, norms]

    solo = Regression()
    norms = [SoloLearner().step(solo.loss(rows(step, 32)), solo.optimiser, 32) for step in range(20)]
    for parameters, seen in together(len(sizes), job, room):
        torch.testing.assert_close(parameters, solo.flat.parameters, atol=1e-5, rtol=1e-4)
        assert seen == pytest.approx(norms, rel=1e-3)


def test_without_any_rows_nobody_steps() -> None:
    def job(learner: AllreduceLearner, rank: int) -> Any:
        learning = Regression()
        norm = learner.step(learning.loss(rows(0, 0)), learning.optimiser, weight=0)
        return norm, learning.flat.parameters, float(learning.optimiser.state_dict()["steps"])

    for norm, parameters, steps in together(2, job):
        assert (norm, steps) == (0.0, 0.0)
        assert torch.equal(parameters, Regression().flat.parameters)


class Refusing:
    """A loss that finds out by itself that it is not finite."""

    def backward(self) -> None:
        raise NonFiniteError("the ratio is inf")


@pytest.mark.parametrize("bad", ["nan", "refusing"])
def test_all_refuse_what_one_must_refuse(bad: str) -> None:
    def job(learner: AllreduceLearner, rank: int) -> Any:
        learning = Regression()
        loss: Any = learning.loss(rows(rank, 4))
        if rank == 1:
            loss = loss * float("nan") if bad == "nan" else Refusing()
        with pytest.raises(NonFiniteError) as caught:
            learner.step(loss, learning.optimiser, weight=4)
        untouched = torch.equal(learning.flat.parameters, Regression().flat.parameters)
        norm = learner.step(learning.loss(rows(rank, 4)), learning.optimiser, weight=4)
        return str(caught.value), untouched, norm

    one, two = together(2, job)
    assert one[0] == "the gradient's norm is nan"
    assert two[0] == (one[0] if bad == "nan" else "the ratio is inf")
    assert one[1:] == two[1:], "and then go on together"
    assert one[1]
    assert one[2] > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (4, 1, 50)])
def test_means_of_any_kind(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    values = [(rows(rank, 100).flatten()[: max(1, np.prod(shape, dtype=int))] * 3).to(dtype) for rank in range(3)]
    values = [value[: int(np.prod(shape))].view(shape) for value in values]
    expected = torch.stack([value.double() for value in values]).mean(0)
    answers = together(3, lambda learner, rank: learner.mean(values[rank]), nbytes=64)
    for answer in answers:
        assert answer.shape == shape
        assert answer.dtype == (dtype if dtype.is_floating_point else torch.float64)
        assert torch.equal(answer, answers[0])
        digits = {torch.float32: 1e-6, torch.bfloat16: 1e-2}.get(dtype, 1e-15)
        torch.testing.assert_close(answer.double(), expected, rtol=digits, atol=digits)


def test_a_replica_that_left_is_waited_for_until_somebody_says_so() -> None:
    tally = MemoryTally(2, ROOM)
    learner = AllreduceLearner(tally, 0, patience=0.05)
    with pytest.raises(ShoalError, match=r"replica 0 waits in vain: ranks \[1\] did not come to round 0 in 0.05 s"):
        learner.mean(torch.zeros(3))
    tally.abandon()
    with pytest.raises(AbandonedError):
        learner.mean(torch.zeros(3))


# ------------------------------------------------------------ hogwild


def test_one_memory_trained_by_two_processes() -> None:
    learning, steps = Regression(), 1_500
    shared = SharedBlock(learning.flat.nbytes, 2, nbytes_beside(learning))
    adopt_shared(learning, torch.from_numpy(shared.block), torch.from_numpy(shared.beside), fill=True)
    shared.publish(0, learning.flat.block.numpy())
    before = float(learning.loss(rows(-1, 500)).detach())
    with replica(hogwild, shared.handle, 0, steps) as one, replica(hogwild, shared.handle, 1, steps) as two:
        results = [result(one), result(two)]
    after = float(learning.loss(rows(-1, 500)).detach())
    assert before > 1.0
    assert after < 0.05, "learned by others, seen here"
    assert max(r["norm"] for r in results) < 1e3
    assert sum(r["others"] for r in results) > 0, "at the same time"
    assert torch.isfinite(learning.flat.parameters).all()
    assert torch.isfinite(
        learning.optimiser.statistics.block[: 2 * learning.flat.parameters.nbytes].view(torch.float32)
    ).all()
    assert [shared.counted(rank) for rank in (0, 1)] == [steps + 1, steps + 1]
    assert shared.latest() == 2 * (steps + 1)
    assert float(learning.optimiser.state_dict()["steps"]) > steps, "one optimiser"


def test_actors_see_a_mailbox() -> None:
    learning = Regression()
    shared = SharedBlock(learning.flat.nbytes, 2)
    actor = Flat(Regression().net, gradients=False)
    reader = ParameterReader(shared, actor)
    assert not reader.pin(0)
    shared.publish(10, learning.flat.block.numpy())
    learning.flat.adopt(torch.from_numpy(shared.block), fill=False)
    assert reader.latest() == 10
    learning.flat.parameters.fill_(2.5)
    assert [shared.count(1), shared.count(0), shared.count(1)] == [11, 12, 13]
    assert (reader.latest(), reader.version) == (13, 13)
    assert (actor.parameters == 2.5).all()
    learning.flat.parameters.fill_(3.5)
    assert shared.read(3, actor.block.numpy()), "there is one version only"
    assert (actor.parameters == 3.5).all()
    with pytest.raises(RuntimeError, match="version 14 comes after 13"):
        shared.publish(14, learning.flat.block.numpy())
    other = SharedBlock.attach(shared.handle)
    assert other.latest() == 13
    other.close()
    shared.close()
    learning.flat.parameters.fill_(4.5)  # still mapped, while it is lived in


def test_every_block_finds_its_place_once() -> None:
    learning = Regression()
    temperature = torch.nn.ParameterList([torch.tensor(0.1)])
    other = Adam(Flat(temperature, gradients=True), lr=1e-3, max_grad_norm=1.0)
    learning.optimisers = (learning.optimiser, other, Adam(learning.flat, lr=1.0, max_grad_norm=1.0))  # type: ignore[assignment]
    beside = torch.full((nbytes_beside(learning),), 255, dtype=torch.uint8)
    adopt_shared(learning, torch.zeros_like(learning.flat.block), beside, fill=True)
    blocks = [flat for o in learning.optimisers for flat in (o.flat, o.statistics) if flat is not learning.flat]
    assert sum(flat.nbytes for flat in blocks) == len(beside)
    starts = sorted(flat.block.data_ptr() - beside.data_ptr() for flat in blocks)
    assert starts[0] == 0
    assert len(set(starts)) == 4
    assert float(temperature[0].detach()) == pytest.approx(0.1)
    assert tally_nbytes(learning) == 4 * (learning.flat.parameters.numel() + 1)
