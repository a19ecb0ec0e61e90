"""Recurrent cores against a plain loop over PyTorch's cells: values, gradients, restarts anywhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_spaces import PICTURES, VECTORS, batch, starts
from torch import Tensor, nn

from shoal.base.config import Named
from shoal.base.tree import tree_leaves, tree_map
from shoal.models import build_model
from shoal.models.unroll import unroll_gru, unroll_lstm

ROWS, LANES, INPUTS, SIZE = 12, 5, 3, 6


def no_restart() -> Tensor:
    return torch.zeros(ROWS, LANES, dtype=torch.bool)


def restart_at(*places: tuple[int, int]) -> Tensor:
    first = no_restart()
    for row, lane in places:
        first[row, lane] = True
    return first


RESTARTS = {
    "none": no_restart(),
    "row 0": restart_at((0, 1), (0, 4)),
    "last row": restart_at((ROWS - 1, 0)),
    "consecutive": restart_at((4, 2), (5, 2), (6, 2), (6, 3)),
    "ends": restart_at((0, 0), (1, 0), (ROWS - 2, 0), (ROWS - 1, 0)),
    "everywhere": ~no_restart(),
    "often": starts(ROWS, LANES, 3),
    "seldom": starts(ROWS, LANES, 40, seed=2),
    "in step": torch.arange(ROWS).eq(7).unsqueeze(1).expand(ROWS, LANES).contiguous(),
}


def naive(cell: Any, x: Tensor, state: list[Tensor], first: Tensor) -> tuple[Tensor, list[Tensor]]:
    outputs = []
    for t in range(len(x)):
        keep = (~first[t]).to(x.dtype).unsqueeze(-1)
        state = [part * keep for part in state]
        after = cell(x[t], state[0] if len(state) == 1 else tuple(state))
        state = [after] if isinstance(after, Tensor) else list(after)
        outputs.append(state[0])
    return torch.stack(outputs), state


def unrolled(cell: Any, x: Tensor, state: list[Tensor], first: Tensor) -> tuple[Tensor, list[Tensor]]:
    if isinstance(cell, nn.GRUCell):
        outputs = unroll_gru(cell, x, state[0], first)
        return outputs, [outputs[-1]]
    outputs, c = unroll_lstm(cell, x, state[0], state[1], first)
    return outputs, [outputs[-1], c]


def with_gradients(run: Any, cell: nn.Module, first: Tensor, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(1)
    x = torch.randn(*first.shape, INPUTS, dtype=dtype, requires_grad=True)
    states = 1 if isinstance(cell, nn.GRUCell) else 2
    state = [torch.randn(first.shape[1], SIZE, dtype=dtype, requires_grad=True) for _ in range(states)]
    outputs, after = run(cell, x, state, first)
    loss = (outputs * torch.randn(outputs.shape, dtype=dtype)).sum()
    for part in after:
        loss = loss + (part * torch.randn(part.shape, dtype=dtype)).sum()
    leaves = [x, *state, *cell.parameters()]
    return [outputs, *after, *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
@pytest.mark.parametrize("restarts", list(RESTARTS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unroll_equals_a_loop_over_cells(kind: Any, restarts: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cell = kind(INPUTS, SIZE, dtype=dtype)
    first = RESTARTS[restarts]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    ours, theirs = (with_gradients(run, cell, first, dtype) for run in (unrolled, naive))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
@pytest.mark.parametrize("every", [4, 1000])
def test_unroll_of_a_real_size(kind: Any, every: int) -> None:
    torch.manual_seed(0)
    cell = kind(INPUTS, SIZE)
    first = starts(100, 24, every)
    ours, theirs = (with_gradients(run, cell, first, torch.float32) for run in (unrolled, naive))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5 * b.detach().abs().max().item(), rtol=1e-5)


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
@pytest.mark.parametrize("restarts", ["none", "often"])
def test_backward_may_run_twice(kind: Any, restarts: str) -> None:
    cell = kind(INPUTS, SIZE)
    x, zeros = torch.randn(ROWS, LANES, INPUTS), torch.zeros(LANES, SIZE)
    loss = unrolled(cell, x, [zeros, zeros], RESTARTS[restarts])[0].sum()
    one = torch.autograd.grad(loss, list(cell.parameters()), retain_graph=True)
    two = torch.autograd.grad(loss, list(cell.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("name", ["gru", "lstm"])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_a_restart_forgets_even_nan(name: str, rows: int) -> None:
    space = VECTORS["box"]
    model = build_model(Named.parse({"name": name}), space)
    first = torch.zeros(rows, 2, dtype=torch.bool)
    first[0, 1] = True
    state = tree_map(lambda part: torch.full_like(part, torch.nan), model.initial_state(2))
    features, after = model(batch(space, rows, 2), state, first)
    assert features[:, 0].isnan().all()
    assert features[:, 1].isfinite().all()
    assert all(leaf[1].isfinite().all() for _, leaf in tree_leaves(after))


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_state_is_carried_and_lanes_are_apart(name: str) -> None:
    torch.manual_seed(0)
    space = VECTORS["box"]
    model = build_model(Named.parse({"name": name}), space)
    observation, first = batch(space, 6, 3), restart_at((3, 1))[:6, :3]
    features, _ = model(observation, model.initial_state(3), first)
    changed = observation.clone()
    changed[0] += 1
    others, _ = model(changed, model.initial_state(3), first)
    same = torch.isclose(features, others).all(-1)
    assert same.tolist() == [[t >= 3 and lane == 1 for lane in range(3)] for t in range(6)]


def test_one_number_puts_the_core_on_the_observation() -> None:
    space = VECTORS["matrix"]
    alone = build_model(Named.parse({"name": "gru", "hidden": [9]}), space)
    assert {key for key, _ in alone.named_parameters()} == {f"cell.{k}_{i}h" for k in ("weight", "bias") for i in "ih"}
    assert alone.get_parameter("cell.weight_ih").shape == (27, 6)
    deep = build_model(Named.parse({"name": "gru", "hidden": [7, 9]}), space)
    assert deep.get_parameter("cell.weight_ih").shape == (27, 7)
    seeing = build_model(Named.parse({"name": "gru", "hidden": [9]}), PICTURES["hwc"])
    assert seeing.get_parameter("cell.weight_ih").shape == (27, 512)


def test_the_forget_gate_starts_open() -> None:
    model = build_model(Named.parse({"name": "lstm", "hidden": [4]}), VECTORS["box"])
    bias = model.get_parameter("cell.bias_ih") + model.get_parameter("cell.bias_hh")
    assert bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
