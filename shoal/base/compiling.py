"""Functions of tensors as compiled code, by torch.compile: one graph each, or an error. Nothing falls back in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from shoal.base.device import CPU
from shoal.base.errors import InputError, ShoalError
from shoal.base.sizes import LEAST

KEY = "placement.compile"
GRAPHS = 64
"""Of one function: of several shapes, with gradients and without. More are an error: something changes that should stay."""


def padded(tensor: Tensor, rows: int) -> Tensor:
    """`[R, B, ...]` -> `[1, rows, ...]`: all rows in a row, then zeros."""
    flat = tensor.reshape(1, -1, *tensor.shape[2:])
    missing = rows - flat.shape[1]
    return functional.pad(flat, (*(0, 0) * (flat.ndim - 2), 0, missing)) if missing else flat.contiguous()


@cache
def compiled(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
    """The same by compiled code, for each shape anew or, if `dynamic`, once for all."""
    made, errors, said = _compile(function, dynamic=dynamic), _errors(), function.__qualname__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return made(*args, **kwargs)
        except errors as error:
            raise ShoalError(f"{KEY} = true: {said} cannot be compiled ({_cause(error)}): set {KEY}=false") from error

    return call


def check_compiler(device: torch.device) -> None:
    """Something small is compiled there, or an InputError says what is missing."""
    made = _compile(_trial, dynamic=False)
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        if device.type == CPU:
            get_cpp_compiler()  # what was made before would be found again without one
        made(torch.ones(LEAST, device=device))
    except Exception as error:  # of many kinds, none of them public
        needed = "install a C++ compiler (g++, or name one in CXX)" if device.type == CPU else "choose another device"
        raise InputError(
            f"{KEY} = true: nothing can be compiled for {device} here ({_cause(error)}): {needed}"
        ) from None


_around: list[Callable[[Any], None]] = []


@cache
def _let_torch_warn_itself() -> None:
    """While it makes a graph it looks at what it warns of: where warnings are errors, nothing could be compiled."""
    from torch._dynamo.callback import callback_handler as handler

    hidden: list[warnings.catch_warnings[Any]] = []

    def begin(_: Any) -> None:
        hidden.append(warnings.catch_warnings())
        hidden[0].__enter__()
        warnings.simplefilter("ignore")

    handler.register_start_callback(begin)
    handler.register_end_callback(lambda _: hidden.pop().__exit__(None, None, None))


def while_compiling(begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Call these around all that is compiled from now on, in place of those of the last call: it may take a minute."""
    from torch._dynamo.callback import callback_handler as handler

    if _around:
        handler.remove_start_callback(_around[0])
        handler.remove_end_callback(_around[1])
    _around[:] = handler.register_start_callback(lambda _: begin()), handler.register_end_callback(lambda _: end())


def _trial(x: Tensor) -> Tensor:
    return x * 2 + 1


def _compile(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # otherwise helpers of its own outlive the run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch warns of itself
        import torch._dynamo.config
        import torch._inductor.compile_fx

    _let_torch_warn_itself()
    torch._dynamo.config.recompile_limit = GRAPHS
    return torch.compile(function, fullgraph=True, dynamic=dynamic)


def _errors() -> tuple[type[Exception], ...]:
    from torch._dynamo import exc

    return exc.TorchDynamoException, exc.FailOnRecompileLimitHit


def _cause(error: Exception) -> str:
    inner = getattr(error, "inner_exception", None) or error
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    return f"{type(inner).__name__}: {lines[0][:200]}" if lines else type(inner).__name__
