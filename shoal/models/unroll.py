"""Recurrent cells over many rows, with restarts inside.

Row by row with the backward pass by hand: the cells as PyTorch ships them know no restarts, and differentiating a loop over
`GRUCell` costs up to twice as much, in small operations and in one weight gradient per row. Packed sequences (lanes cut at
their restarts) were slower still. Numbers: `benchmarks/`. Names as in `torch.nn.GRUCell` and `LSTMCell`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input

ROWS_PER_CALL = 8
"""From this many rows between restarts on, whole calls of oneDNN's LSTM are faster than our loop."""


def unroll_gru(cell: nn.GRUCell, x: Tensor, h: Tensor, first: Tensor) -> Tensor:
    """Inputs `[R, B, I]`, state before row 0 `[B, H]`, bool `[R, B]` where it restarts from zero -> `[R, B, H]`."""
    outputs: Tensor = _GRU.apply(x, h, first, cell.weight_ih, cell.bias_ih, cell.weight_hh, cell.bias_hh)
    return outputs


def unroll_lstm(cell: nn.LSTMCell, x: Tensor, h: Tensor, c: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """As `unroll_gru`, with a second state: `[R, B, H]` and the cell state after the last row."""
    cuts = first.any(1).tolist()
    if sum(cuts) * ROWS_PER_CALL <= len(cuts):
        return _lstm_calls(cell, x, h, c, first, cuts)
    outputs: tuple[Tensor, Tensor] = _LSTM.apply(
        x, h, c, first, cell.weight_ih, cell.bias_ih + cell.bias_hh, cell.weight_hh
    )
    return outputs


def _lstm_calls(
    cell: nn.LSTMCell, x: Tensor, h: Tensor, c: Tensor, first: Tensor, cuts: list[bool]
) -> tuple[Tensor, Tensor]:
    """One call per stretch of rows between two rows with a restart."""
    weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
    starts = [t for t, cut in enumerate(cuts) if cut or t == 0]
    sizes = [stop - start for start, stop in zip(starts, [*starts[1:], len(cuts)], strict=True)]
    outputs = []
    for start, stretch in zip(starts, x.split(sizes), strict=True):
        restart = first[start].unsqueeze(-1)
        state = [h.masked_fill(restart, 0).unsqueeze(0), c.masked_fill(restart, 0).unsqueeze(0)]
        training = torch.is_grad_enabled()
        rows, h_last, c_last = torch.lstm(stretch, state, weights, True, 1, 0.0, training, False, False)
        h, c = h_last[0], c_last[0]
        outputs.append(rows)
    return torch.cat(outputs), c


def _previous(initial: Tensor, states: Tensor, first: Tensor) -> Tensor:
    """The state every row started from."""
    return torch.cat([initial.unsqueeze(0), states[:-1]]).masked_fill_(first.unsqueeze(-1), 0)


def _gates(tensor: Tensor, size: int) -> list[tuple[Tensor, ...]]:
    """`[R, B, gates * size]` as a list of rows per gate."""
    return [gate.unbind(0) for gate in tensor.split(size, -1)]


class _GRU(Function):
    """r, z = sigmoid(.), n = tanh(i_n + r * h_n), h' = n + z * (h - n)."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        first: Tensor,
        weight_ih: Tensor,
        bias_ih: Tensor,
        weight_hh: Tensor,
        bias_hh: Tensor,
    ) -> Tensor:
        size = h.shape[-1]
        bias_rz, bias_n = bias_hh.split((2 * size, size))
        bias = bias_ih.clone()
        bias[: 2 * size] += bias_rz
        weight_rz, weight_n = weight_hh.t().contiguous().split((2 * size, size), 1)
        gates = linear(x, weight_ih, bias)
        h_n = h.new_empty(*first.shape, size)
        outputs = torch.empty_like(h_n)
        ctx.cuts, ctx.size = first.any(1).tolist(), size
        rows = zip(
            ctx.cuts, first.unsqueeze(-1).unbind(0), gates[..., : 2 * size].unbind(0), *_gates(gates, size),
            h_n.unbind(0), outputs.unbind(0), strict=True,
        )  # fmt: skip
        previous = h
        for cut, restart, rz, r, z, n, candidate, output in rows:
            if cut:
                previous = previous.masked_fill(restart, 0)
            rz.addmm_(previous, weight_rz).sigmoid_()
            torch.addmm(bias_n, previous, weight_n, out=candidate)
            n.addcmul_(r, candidate).tanh_()
            previous = torch.lerp(n, previous, z, out=output)
        ctx.save_for_backward(x, h, first, weight_ih, weight_hh, gates, h_n, outputs)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, h, first, weight_ih, weight_hh, gates, h_n, outputs = ctx.saved_tensors
        size = ctx.size
        weight_rz, weight_n = weight_hh.split((2 * size, size))
        previous = _previous(h, outputs, first)
        d_gates, d_h_n = torch.empty_like(gates), torch.empty_like(h_n)
        rows = zip(
            ctx.cuts, first.unsqueeze(-1).unbind(0), d_outputs.unbind(0), previous.unbind(0), *_gates(gates, size),
            h_n.unbind(0), d_gates[..., : 2 * size].unbind(0), *_gates(d_gates, size), d_h_n.unbind(0), strict=True,
        )  # fmt: skip
        d_h, scratch = torch.zeros_like(h), torch.empty_like(h)
        for cut, restart, d_output, before, r, z, n, candidate, d_rz, d_r, d_z, d_n, d_candidate in reversed(
            list(rows)
        ):
            d_output = d_h.add_(d_output)
            _sigmoid_backward(torch.sub(before, n, out=scratch).mul_(d_output), z, grad_input=d_z)
            d_h = d_output * z
            _tanh_backward(d_output.sub_(d_h), n, grad_input=d_n)
            _sigmoid_backward(torch.mul(d_n, candidate, out=scratch), r, grad_input=d_r)
            torch.mul(d_n, r, out=d_candidate)
            d_h.addmm_(d_rz, weight_rz).addmm_(d_candidate, weight_n)
            if cut:
                d_h.masked_fill_(restart, 0)
        flat, flat_n, before = d_gates.flatten(0, 1), d_h_n.flatten(0, 1), previous.flatten(0, 1)
        flat_rz = flat[:, : 2 * size]
        d_x = (flat @ weight_ih).view_as(x) if ctx.needs_input_grad[0] else None
        d_bias, d_bias_n = flat.sum(0), flat_n.sum(0)
        d_weight_hh = torch.cat([flat_rz.t() @ before, flat_n.t() @ before])
        d_bias_hh = torch.cat([d_bias[: 2 * size], d_bias_n])
        return d_x, d_h, None, flat.t() @ x.flatten(0, 1), d_bias, d_weight_hh, d_bias_hh


class _LSTM(Function):
    """i, f, o = sigmoid(.), g = tanh(.), c' = f * c + i * g, h' = o * tanh(c')."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, c: Tensor, first: Tensor, weight_ih: Tensor, bias: Tensor, weight_hh: Tensor
    ) -> tuple[Tensor, Tensor]:
        size = h.shape[-1]
        weight = weight_hh.t().contiguous()
        gates = linear(x, weight_ih, bias)
        cells, squashed = h.new_empty(*first.shape, size), h.new_empty(*first.shape, size)
        outputs = torch.empty_like(cells)
        ctx.cuts, ctx.size = first.any(1).tolist(), size
        rows = zip(
            ctx.cuts, first.unsqueeze(-1).unbind(0), gates.unbind(0), gates[..., : 2 * size].unbind(0),
            *_gates(gates, size), cells.unbind(0), squashed.unbind(0), outputs.unbind(0), strict=True,
        )  # fmt: skip
        previous, memory = h, c
        for cut, restart, gate, i_f, i, f, g, o, cell, tanh_cell, output in rows:
            if cut:
                previous, memory = previous.masked_fill(restart, 0), memory.masked_fill(restart, 0)
            gate.addmm_(previous, weight)
            i_f.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            memory = torch.mul(f, memory, out=cell).addcmul_(i, g)
            previous = torch.mul(o, torch.tanh(memory, out=tanh_cell), out=output)
        ctx.save_for_backward(x, h, c, first, weight_ih, weight_hh, gates, cells, squashed, outputs)
        return outputs, memory

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, first, weight_ih, weight_hh, gates, cells, squashed, outputs = ctx.saved_tensors
        size = ctx.size
        d_gates = torch.empty_like(gates)
        rows = zip(
            ctx.cuts, first.unsqueeze(-1).unbind(0), d_outputs.unbind(0), _previous(c, cells, first).unbind(0),
            squashed.unbind(0), *_gates(gates, size), d_gates.unbind(0), *_gates(d_gates, size), strict=True,
        )  # fmt: skip
        d_h, d_c, scratch = torch.zeros_like(h), d_last.clone(), torch.empty_like(h)
        for cut, restart, d_output, before, tanh_cell, i, f, g, o, d_gate, d_i, d_f, d_g, d_o in reversed(list(rows)):
            d_h.add_(d_output)
            _sigmoid_backward(torch.mul(d_h, tanh_cell, out=scratch), o, grad_input=d_o)
            d_c.add_(_tanh_backward(d_h.mul_(o), tanh_cell, grad_input=scratch))
            _sigmoid_backward(torch.mul(d_c, g, out=scratch), i, grad_input=d_i)
            _tanh_backward(torch.mul(d_c, i, out=scratch), g, grad_input=d_g)
            _sigmoid_backward(torch.mul(d_c, before, out=scratch), f, grad_input=d_f)
            d_c.mul_(f)
            torch.mm(d_gate, weight_hh, out=d_h)
            if cut:
                d_h.masked_fill_(restart, 0)
                d_c.masked_fill_(restart, 0)
        flat = d_gates.flatten(0, 1)
        d_x = (flat @ weight_ih).view_as(x) if ctx.needs_input_grad[0] else None
        d_weight_hh = flat.t() @ _previous(h, outputs, first).flatten(0, 1)
        return d_x, d_h, d_c, None, flat.t() @ x.flatten(0, 1), flat.sum(0), d_weight_hh
