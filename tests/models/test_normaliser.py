"""Running statistics against numpy over all data at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from torch import Tensor

from shoal.api.algorithm import NonFiniteError
from shoal.base.flat import Flat
from shoal.models.normaliser import ObservationNormaliser

SPACE = Box(-np.inf, np.inf, (3,))


def alone(value: Tensor) -> Tensor:
    return value


def batches(count: int, mean: float, std: float) -> list[tuple[Tensor, Tensor]]:
    random = np.random.default_rng(0)
    data = [random.normal(mean, std, (8, 4 + i % 3, 3)).astype(np.float32) for i in range(count)]
    return [(torch.from_numpy(x), torch.from_numpy(random.random(x.shape[:2]) < 0.7)) for x in data]


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (3.0, 0.01), (1e4, 1.0), (-1e-3, 3e-3)])
@pytest.mark.parametrize("count", [1, 2, 200])
def test_against_numpy(mean: float, std: float, count: int) -> None:
    normaliser = ObservationNormaliser(SPACE)
    data = batches(count, mean, std)
    for x, valid in data:
        normaliser.update(torch.where(valid.unsqueeze(-1), x, torch.nan), valid, alone)
    rows = np.concatenate([x[valid].numpy().astype(np.float64) for x, valid in data])
    expected = (rows - rows.mean(0)) / rows.std(0)
    found = normaliser(torch.from_numpy(rows.astype(np.float32))).numpy()
    np.testing.assert_allclose(found, expected, atol=0.01)
    buffers = dict(normaliser.named_buffers())
    assert buffers["moments.0.count"].item() == len(rows)
    assert buffers["moments.0.mean"].dtype == buffers["moments.0.variance"].dtype == torch.float32
    np.testing.assert_allclose(buffers["moments.0.variance"].numpy(), rows.var(0), rtol=2e-3)


def test_before_any_update_it_is_the_identity() -> None:
    normaliser = ObservationNormaliser(SPACE)
    x = torch.tensor([[1e6, -50.0, 0.0]])
    assert torch.equal(normaliser(x), x)
    normaliser.update(torch.full((2, 3, 3), torch.nan), torch.zeros(2, 3, dtype=torch.bool), alone)
    assert torch.equal(normaliser(x), x)


def test_clipping_and_the_input_is_left_alone() -> None:
    normaliser = ObservationNormaliser(SPACE)
    x, valid = batches(1, 0.0, 1.0)[0]
    kept = x.clone()
    normaliser.update(x, valid, alone)
    assert normaliser(torch.tensor([1e6, -1e6, 0.0]))[:2].tolist() == [10.0, -10.0]
    normaliser(x)
    assert torch.equal(x, kept)


def test_a_constant_stays_finite() -> None:
    normaliser = ObservationNormaliser(SPACE)
    for _ in range(3):
        normaliser.update(torch.full((4, 2, 3), 7.3), torch.ones(4, 2, dtype=torch.bool), alone)
    assert normaliser(torch.full((3,), 7.3)).abs().max() < 0.1


def replicas(parts: list[tuple[Tensor, Tensor]], count: int) -> list[ObservationNormaliser]:
    """Each of `count` replicas takes every count-th part; `mean` is what an allreduce would give."""
    made = [ObservationNormaliser(SPACE) for _ in range(count)]
    for start in range(0, len(parts), count):
        asked: list[Tensor] = []

        def note(value: Tensor, asked: list[Tensor] = asked) -> Tensor:
            asked.append(value)
            raise InterruptedError

        for normaliser, part in zip(made, parts[start:], strict=False):
            with pytest.raises(InterruptedError):
                normaliser.update(*part, note)
        shared = torch.stack(asked).mean(0)
        answer: Callable[[Tensor], Tensor] = lambda _, shared=shared: shared  # noqa: E731
        for normaliser, part in zip(made, parts[start:], strict=False):
            normaliser.update(*part, answer)
    return made


def test_replicas_agree_and_know_what_one_would_know() -> None:
    parts = batches(20, 1e4, 1.0)
    one, other = replicas(parts, 2)
    assert all(torch.equal(a, b) for a, b in zip(one.buffers(), other.buffers(), strict=True))
    single = ObservationNormaliser(SPACE)
    for x, valid in parts:
        single.update(x, valid, alone)
    probe = 1e4 + torch.randn(50, 3)
    torch.testing.assert_close(one(probe), single(probe), atol=2e-3, rtol=0)


def test_only_small_float_boxes_are_touched() -> None:
    space = Dict(
        {
            "body": Box(-1, 1, (2,)),
            "map": Box(-1, 1, (2, 2), np.float64),
            "number": Box(-1, 1, ()),
            "eye": Box(0, 255, (4, 4, 3), np.uint8),
            "field": Box(0, 1, (2, 2, 2)),
            "more": Tuple((Discrete(3), Box(-1, 1, (1,)))),
        }
    )
    normaliser = ObservationNormaliser(space)
    observation = {
        "body": torch.randn(5, 4, 2) + 3,
        "map": torch.randn(5, 4, 2, 2).double() + 3,
        "number": torch.randn(5, 4) + 3,
        "eye": torch.zeros(5, 4, 4, 4, 3, dtype=torch.uint8),
        "field": torch.randn(5, 4, 2, 2, 2),
        "more": (torch.randint(3, (5, 4)), torch.randn(5, 4, 1) + 3),
    }
    calls = []

    def counted(value: Tensor) -> Tensor:
        calls.append(value.dtype)
        return value

    normaliser.update(observation, torch.ones(5, 4, dtype=torch.bool), counted)
    assert calls == [torch.float64]
    out = normaliser(observation)
    for key in ("eye", "field"):
        assert out[key] is observation[key]
    assert out["more"][0] is observation["more"][0]
    for leaf, raw in ((out[key], observation[key]) for key in ("body", "map", "number")):
        assert leaf.shape == raw.shape
        assert leaf.mean((0, 1)).abs().max() < 1e-4
    assert out["more"][1].mean().abs() < 1e-4
    assert ObservationNormaliser(Discrete(3))(torch.tensor([1])).tolist() == [1]


def test_non_finite_batches_are_refused_whole() -> None:
    space = Dict({"a": Box(-1, 1, (1,)), "b": Box(-1, 1, (1,))})
    normaliser = ObservationNormaliser(space)
    valid = torch.ones(2, 2, dtype=torch.bool)
    normaliser.update({"a": torch.randn(2, 2, 1), "b": torch.randn(2, 2, 1)}, valid, alone)
    kept = [buffer.clone() for buffer in normaliser.buffers()]
    bad = torch.tensor([[[1.0], [torch.inf]], [[0.0], [0.0]]])
    with pytest.raises(NonFiniteError, match="observation/b:"):
        normaliser.update({"a": torch.randn(2, 2, 1), "b": bad}, valid, alone)
    assert all(torch.equal(a, b) for a, b in zip(normaliser.buffers(), kept, strict=True))


def test_the_buffers_alone_decide() -> None:
    trainer, actor = ObservationNormaliser(SPACE), ObservationNormaliser(SPACE)
    theirs, ours = Flat(trainer, gradients=True), Flat(actor, gradients=False)
    x, valid = batches(1, 5.0, 2.0)[0]
    assert torch.equal(actor(x), x)
    trainer.update(x, valid, alone)
    ours.load(theirs.block)
    assert torch.equal(actor(x), trainer(x))
    assert not torch.equal(actor(x), x)
    fresh = ObservationNormaliser(SPACE)
    fresh.load_state_dict(trainer.state_dict())
    assert torch.equal(fresh(x), trainer(x))
