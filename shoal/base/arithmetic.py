"""How networks compute: in which precision, and by compiled code or not. Numbers of float32 go in, numbers of float32 come out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from shoal.base.compiling import compiled, padded
from shoal.base.device import CPU
from shoal.base.errors import InputError
from shoal.base.sizes import fixed_size
from shoal.base.tree import tree_map

Function = TypeVar("Function", bound=Callable[..., Any])
HAS_TF32 = "cuda"
"""The kind of device that knows tf32."""


@dataclass(frozen=True)
class Arithmetic:
    """What `Network`s do with their numbers."""

    bf16: bool = False
    """Products of matrices and convolutions take bfloat16; sums are torch's own affair, parameters stay float32."""
    compiled: bool = False
    """Networks and losses run by compiled code."""

    @property
    def plain(self) -> bool:
        """As torch computes by itself."""
        return not (self.bf16 or self.compiled)

    def loss(self, function: Function) -> Function:
        """A pure function of tensors. Its sizes stay free: to pad rows would add up their mean in another order."""
        return compiled(function, dynamic=True) if self.compiled else function  # type: ignore[return-value]

    def around(self, kind: str) -> AbstractContextManager[Any]:
        """Within it, layers on devices of this kind compute so."""
        return torch.autocast(kind, torch.bfloat16) if self.bf16 else nullcontext()


PLAIN = Arithmetic()


def by_hand(tensor: Tensor, arithmetic: Arithmetic = PLAIN) -> bool:
    """The one rule by which what was written by hand for the CPU, in float32, stands aside."""
    return arithmetic.plain and tensor.device.type == CPU and not torch.compiler.is_compiling()


class Network(nn.Module):
    """A network without its heads: where the arithmetic of a run is applied."""

    arithmetic: Arithmetic = PLAIN
    axes_before: ClassVar[int] = 0
    """Of its results, before rows and lanes."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """`forward`, with a result of float32."""
        if self.arithmetic.plain:
            return super().__call__(*inputs, **named)
        with self.arithmetic.around(next(self.parameters()).device.type):
            by_graph = self._by_graph if self.arithmetic.compiled else super().__call__
            result = by_graph(*inputs, **named)
        return tree_map(_widened, result)

    @property
    def rows_alone(self) -> bool:
        """What it says of a row depends on that row alone; all inputs are `[R, B, ...]` then."""
        return True

    def _by_graph(self, *inputs: Any, **named: Any) -> Any:
        """Where rows stand alone they are laid in a row and padded, so that few shapes occur."""
        forward = compiled(type(self).forward, dynamic=False)
        if not self.rows_alone:
            return forward(self, *inputs, **named)
        shape, at = inputs[-1].shape[:2], self.axes_before
        size = fixed_size(shape.numel())
        given = tree_map(lambda tensor: padded(tensor, size), (inputs, named))
        result = forward(self, *given[0], **given[1])
        return tree_map(lambda t: t.narrow(at + 1, 0, shape.numel()).squeeze(at).unflatten(at, shape), result)

    def arithmetic_parts(self) -> Iterator[Network]:
        """What the arithmetic is applied to: itself, or those of its parts that are fit for it."""
        yield self


def networks_of(module: nn.Module) -> Iterator[Network]:
    """The outermost networks with anything to compute; heads, mixers, normalisers and the like are none."""
    if isinstance(module, Network):
        yield from (each for each in module.arithmetic_parts() if any(True for _ in each.parameters()))
    else:
        for child in module.children():
            yield from networks_of(child)


def compute_by(module: nn.Module, arithmetic: Arithmetic) -> int:
    """Let the networks of a module compute so from now on; how many there are."""
    found = list(networks_of(module))
    for network in found:
        network.arithmetic = arithmetic
    return len(found)


def arithmetic_of(precision: str, device: torch.device, *, compile: bool = False) -> Arithmetic:
    """What these settings mean on a device. tf32 is a setting of the whole process, and of none but CUDA devices.

    There it is turned off unless it is asked for: convolutions would have it by default.
    """
    if device.type == HAS_TF32:
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
    if precision != "bf16":
        return Arithmetic(compiled=True) if compile else PLAIN
    found = Arithmetic(bf16=True, compiled=compile)
    try:
        with found.around(device.type):
            pass
    except (RuntimeError, AssertionError):  # torch has no such thing there
        raise InputError(f"placement.precision = 'bf16': {device} has no bfloat16; choose fp32") from None
    return found


def make_deterministic() -> None:
    """Of the whole process, for good: operators repeat themselves to the bit, or raise where torch has no way to."""
    # cuBLAS repeats itself with a workspace of fixed size alone
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # filled with NaN it would take time, and nobody reads it
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False


def _widened(result: Tensor) -> Tensor:
    return result.float() if result.dtype is torch.bfloat16 else result
