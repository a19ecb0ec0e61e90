"""Recurrent cells over many rows, with restarts inside.

Row by row with the backward pass by hand: PyTorch's recurrent layers know no restarts, and differentiating a loop over
its cells costs up to twice as much, in small operations and in one weight gradient per row. Packed sequences (every
lane cut at its restarts) are slower still: each of their rows fills a gradient as large as the whole. Names as in
`torch.nn.GRUCell` and `LSTMCell`; the neighbours `rz` and `i_f` go through one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from shoal.base.device import on_cpu

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input

ROWS_PER_CALL = 8
"""From this many rows per row with a restart on, whole calls of oneDNN's LSTM are faster than our loop."""


def unroll_gru(cell: nn.GRUCell, x: Tensor, h: Tensor, first: Tensor) -> Tensor:
    """Inputs `[R, B, I]`, state before row 0 `[B, H]`, bool `[R, B]` where it restarts from zero -> `[R, B, H]`."""
    outputs: Tensor = _GRU.apply(x, h, first, cell.weight_ih, cell.bias_ih, cell.weight_hh, cell.bias_hh)
    return outputs


def unroll_lstm(cell: nn.LSTMCell, x: Tensor, h: Tensor, c: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """As `unroll_gru`, with a second state: `[R, B, H]` and the cell state after the last row."""
    if on_cpu(first) and int(first.any(1).sum()) * ROWS_PER_CALL <= len(first):
        return _lstm_calls(cell, x, h, c, first)
    bias = cell.bias_ih + cell.bias_hh
    outputs: tuple[Tensor, Tensor] = _LSTM.apply(x, h, c, first, cell.weight_ih, bias, cell.weight_hh)
    return outputs


def _lstm_calls(cell: nn.LSTMCell, x: Tensor, h: Tensor, c: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """One call for each stretch of rows without a restart inside."""
    weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
    starts = [t for t, cut in enumerate(first.any(1).tolist()) if cut or t == 0]
    sizes = [stop - start for start, stop in zip(starts, [*starts[1:], len(first)], strict=True)]
    training = torch.is_grad_enabled()
    outputs = []
    for start, stretch in zip(starts, x.split(sizes), strict=True):
        restart = first[start].unsqueeze(-1)
        state = [h.masked_fill(restart, 0).unsqueeze(0), c.masked_fill(restart, 0).unsqueeze(0)]
        rows, h_last, c_last = torch.lstm(stretch, state, weights, True, 1, 0.0, training, False, False)
        h, c = h_last[0], c_last[0]
        outputs.append(rows)
    return torch.cat(outputs), c


def _cuts(first: Tensor) -> list[bool]:
    """Rows with a restart; on a device any may be: nobody waits to know, and filling nothing changes nothing."""
    return first.any(1).tolist() if on_cpu(first) else [True] * len(first)


def _previous(initial: Tensor, states: Tensor, first: Tensor) -> Tensor:
    """The state every row started from."""
    return torch.cat([initial.unsqueeze(0), states[:-1]]).masked_fill_(first.unsqueeze(-1), 0)


def _rows(tensors: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Tensors `[R, ...]` as one tuple per row. Slicing costs as much as computing here, so it is done once."""
    return list(zip(*(tensor.unbind(0) for tensor in tensors), strict=True))


class _GRU(Function):
    """r, z = sigmoid(.), n = tanh(i_n + r * h_n), h' = n + z * (h - n)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, first: Tensor, *weights: Tensor) -> Tensor:
        weight_ih, bias_ih, weight_hh, bias_hh = weights
        size = h.shape[-1]
        parts = (2 * size, size)
        bias_rz, bias_n = bias_hh.split(parts)
        weight_rz, weight_n = weight_hh.t().contiguous().split(parts, 1)
        gates = linear(x, weight_ih, torch.cat([bias_ih[: 2 * size] + bias_rz, bias_ih[2 * size :]]))
        h_n = h.new_empty(*first.shape, size)
        outputs = torch.empty_like(h_n)
        ctx.cuts = _cuts(first)
        rows = _rows([first.unsqueeze(-1), gates[..., : 2 * size], *gates.split(size, -1), h_n, outputs])
        previous = h
        for cut, (restart, rz, r, z, n, candidate, output) in zip(ctx.cuts, rows, strict=True):
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
        size = h.shape[-1]
        weight_rz, weight_n = weight_hh.split((2 * size, size))
        previous, d_gates, d_h_n = _previous(h, outputs, first), torch.empty_like(gates), torch.empty_like(h_n)
        d_gates_rz = d_gates[..., : 2 * size]
        known = _rows([first.unsqueeze(-1), d_outputs, previous, *gates.split(size, -1), h_n])
        wanted = _rows([d_gates_rz, *d_gates.split(size, -1), d_h_n])
        d_h, scratch = torch.zeros_like(h), torch.empty_like(h)
        for t in reversed(range(len(first))):
            restart, d_output, before, r, z, n, candidate = known[t]
            d_rz, d_r, d_z, d_n, d_candidate = wanted[t]
            d_after = d_h.add_(d_output)
            _sigmoid_backward(torch.sub(before, n, out=scratch).mul_(d_after), z, grad_input=d_z)
            d_h = d_after * z
            _tanh_backward(d_after.sub_(d_h), n, grad_input=d_n)
            _sigmoid_backward(torch.mul(d_n, candidate, out=scratch), r, grad_input=d_r)
            torch.mul(d_n, r, out=d_candidate)
            d_h.addmm_(d_rz, weight_rz).addmm_(d_candidate, weight_n)
            if ctx.cuts[t]:
                d_h.masked_fill_(restart, 0)
        flat, flat_n, before = d_gates.flatten(0, 1), d_h_n.flatten(0, 1), previous.flatten(0, 1)
        d_x = (flat @ weight_ih).view_as(x) if ctx.needs_input_grad[0] else None
        d_bias = flat.sum(0)
        d_weight_hh = torch.cat([d_gates_rz.flatten(0, 1).t() @ before, flat_n.t() @ before])
        d_bias_hh = torch.cat([d_bias[: 2 * size], flat_n.sum(0)])
        return d_x, d_h, None, flat.t() @ x.flatten(0, 1), d_bias, d_weight_hh, d_bias_hh


class _LSTM(Function):
    """i, f, o = sigmoid(.), g = tanh(.), c' = f * c + i * g, h' = o * tanh(c')."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, c: Tensor, first: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        weight_ih, bias, weight_hh = weights
        size = h.shape[-1]
        weight = weight_hh.t().contiguous()
        gates = linear(x, weight_ih, bias)
        cells = h.new_empty(*first.shape, size)
        tanh_cells, outputs = torch.empty_like(cells), torch.empty_like(cells)
        ctx.cuts = _cuts(first)
        states = [cells, tanh_cells, outputs]
        rows = _rows([first.unsqueeze(-1), gates, gates[..., : 2 * size], *gates.split(size, -1), *states])
        previous, memory = h, c
        for cut, (restart, gate, i_f, i, f, g, o, cell, tanh_cell, output) in zip(ctx.cuts, rows, strict=True):
            if cut:
                previous, memory = previous.masked_fill(restart, 0), memory.masked_fill(restart, 0)
            gate.addmm_(previous, weight)
            i_f.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            memory = torch.mul(f, memory, out=cell).addcmul_(i, g)
            previous = torch.mul(o, torch.tanh(memory, out=tanh_cell), out=output)
        ctx.save_for_backward(x, h, c, first, weight_ih, weight_hh, gates, cells, tanh_cells, outputs)
        return outputs, memory.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, first, weight_ih, weight_hh, gates, cells, tanh_cells, outputs = ctx.saved_tensors
        size = h.shape[-1]
        d_gates = torch.empty_like(gates)
        before = _previous(c, cells, first)
        known = _rows([first.unsqueeze(-1), d_outputs, before, tanh_cells, *gates.split(size, -1)])
        wanted = _rows([d_gates, *d_gates.split(size, -1)])
        d_h, d_c, scratch = torch.zeros_like(h), d_last.clone(), torch.empty_like(h)
        for t in reversed(range(len(first))):
            restart, d_output, cell, tanh_cell, i, f, g, o = known[t]
            d_gate, d_i, d_f, d_g, d_o = wanted[t]
            d_h.add_(d_output)
            _sigmoid_backward(torch.mul(d_h, tanh_cell, out=scratch), o, grad_input=d_o)
            d_c.add_(_tanh_backward(d_h.mul_(o), tanh_cell, grad_input=scratch))
            _sigmoid_backward(torch.mul(d_c, g, out=scratch), i, grad_input=d_i)
            _tanh_backward(torch.mul(d_c, i, out=scratch), g, grad_input=d_g)
            _sigmoid_backward(torch.mul(d_c, cell, out=scratch), f, grad_input=d_f)
            d_c.mul_(f)
            torch.mm(d_gate, weight_hh, out=d_h)
            if ctx.cuts[t]:
                d_h.masked_fill_(restart, 0)
                d_c.masked_fill_(restart, 0)
        flat = d_gates.flatten(0, 1)
        d_x = (flat @ weight_ih).view_as(x) if ctx.needs_input_grad[0] else None
        d_weight_hh = flat.t() @ _previous(h, outputs, first).flatten(0, 1)
        return d_x, d_h, d_c, None, flat.t() @ x.flatten(0, 1), flat.sum(0), d_weight_hh
