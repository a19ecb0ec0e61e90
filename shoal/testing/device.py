"""A device that is none: tensors of `pretend:0` keep their values in CPU memory and behave like those of an accelerator.

What would fail or wait there fails or is counted here. An operator refuses tensors of the CPU beside its own. Copies to and from
the device are counted by bytes, and every call that would make the CPU wait for the device is counted by name: `item`, copies that
are not `non_blocking`, `nonzero`, boolean masks. What is copied to the CPU `non_blocking` arrives with the next such call, not
before. Arithmetic is the CPU's own, so results are comparable to the bit; `torch.autocast` knows bfloat16.

Importing this module makes the device known to torch. That must be before the first backward pass of the process: torch counts
devices then, and only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

DEVICE = torch.device("cpu")
"""Replaced below, once torch knows the name."""

_WAITS = {
    "aten::_local_scalar_dense": "item",
    "aten::nonzero": "nonzero",
    "aten::masked_select": "masked_select",
    "aten::equal": "equal",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
    "aten::unique_consecutive": "unique",
    "aten::repeat_interleave": "repeat_interleave",
}
"""Operators whose result the CPU must see before it can go on: a number, or a shape that depends on values."""
_MASKED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
_UNSEEN = 0xAB
"""Bytes of memory that a copy on its way has not reached."""


@dataclass
class Transfers:
    """What went over, and what was waited for, while it was counted."""

    to_device: int = 0
    """Bytes."""
    to_cpu: int = 0
    """Bytes."""
    copies: int = 0
    """Both ways."""
    waits: Counter[str] = field(default_factory=Counter)
    """Call -> how often the CPU waited for the device in it."""

    @property
    def nbytes(self) -> int:
        """Both ways."""
        return self.to_device + self.to_cpu

    @property
    def synchronising(self) -> int:
        """Calls that waited for the device."""
        return sum(self.waits.values())


_counting: list[Transfers] = []
_on_their_way: list[tuple[Tensor, Tensor]] = []


@contextmanager
def counted() -> Iterator[Transfers]:
    """Count what happens inside, on whatever thread."""
    transfers = Transfers()
    _counting.append(transfers)
    try:
        yield transfers
    finally:
        _counting.remove(transfers)


def synchronize(device: Any = None) -> None:
    """Wait until all that was asked of the device is done."""
    _wait("synchronize")


def _wait(call: str) -> None:
    for transfers in _counting:
        transfers.waits[call] += 1
    while _on_their_way:
        target, values = _on_their_way.pop(0)
        target.copy_(values)


def _count(nbytes: int, *, to_device: bool) -> None:
    for transfers in _counting:
        transfers.copies += 1
        transfers.to_device += nbytes if to_device else 0
        transfers.to_cpu += 0 if to_device else nbytes


class PretendTensor(Tensor):
    """A tensor of the device; `held` is the CPU tensor that holds its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> PretendTensor:
        return Tensor._make_wrapper_subclass(
            cls, values.size(), strides=values.stride(), storage_offset=values.storage_offset(), dtype=values.dtype,
            device=DEVICE, requires_grad=False,
        )  # fmt: skip

    def __init__(self, values: Tensor) -> None:
        self.held = values

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PretendTensor({self.held!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            copy = PretendTensor(self.held.detach().clone())
            memo[id(self)] = (
                torch.nn.Parameter(copy, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copy
            )
        found: Tensor = memo[id(self)]
        return found

    @property
    def data(self) -> Tensor:
        """Without a graph; setting it lets this tensor lie where the other does."""
        return PretendTensor(self.held.detach())

    @data.setter
    def data(self, other: Tensor) -> None:
        assert isinstance(other, PretendTensor), "it would lie on another device"
        torch.Tensor.data.__set__(self, other)  # type: ignore[attr-defined]
        self.held = other.held

    def numpy(self, *, force: bool = False) -> Any:
        """Refused, as by any device."""
        raise TypeError("can't convert pretend device type tensor to numpy: copy it to the CPU first")

    def tolist(self) -> Any:
        """One copy, and one wait."""
        return self.cpu().tolist()

    def data_ptr(self) -> int:
        """Where the numbers lie."""
        return self.held.data_ptr()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if name in _SPECIAL:
            return _SPECIAL[name](func, args, kwargs)
        flat, spec = pytree.tree_flatten((args, kwargs))
        _refuse_mixing(name, flat)
        if name in _WAITS or (name in _MASKED and any(_is_mask(each) for each in args[1])):
            _wait(_WAITS.get(name, "boolean mask"))
        if _WAITS.get(name) == "item":
            _count(args[0].element_size(), to_device=False)
        inside = [each.held if isinstance(each, PretendTensor) else _own_device(each) for each in flat]
        own_args, own_kwargs = pytree.tree_unflatten(inside, spec)
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type != DEVICE.type:
            return func(*own_args, **own_kwargs)  # `zeros_like(ours, device="cpu")`
        return _wrapped(func, func(*own_args, **own_kwargs), args, kwargs)


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def _refuse_mixing(name: str, flat: list[Any]) -> None:
    for each in flat:
        if isinstance(each, Tensor) and not isinstance(each, PretendTensor):
            raise RuntimeError(
                f"{name}: expected all tensors to be on the same device, but found {DEVICE} and {each.device} "
                f"{list(each.shape)}"
            )


def _own_device(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == DEVICE.type else value


def _wrapped(func: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Fresh tensors of the device; what an operator wrote into is what it was given."""
    returns = func._schema.returns
    written = {
        out: given
        for argument, given in [*zip(func._schema.arguments, args, strict=False), *_named(func, kwargs)]
        if argument.alias_info is not None and argument.alias_info.is_write
        for out in argument.alias_info.before_set
    }

    def wrap(each: Any, declared: Any) -> Any:
        info = declared.alias_info
        if info is not None and info.is_write:
            return next(written[out] for out in info.before_set)
        return pytree.tree_map_only(Tensor, PretendTensor, each)

    if len(returns) == 0:
        return None
    if len(returns) == 1:
        return wrap(result, returns[0])
    return tuple(wrap(each, declared) for each, declared in zip(result, returns, strict=True))


def _named(func: Any, kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    return ((argument, kwargs[argument.name]) for argument in func._schema.arguments if argument.name in kwargs)


# ---------------------------------------------------------------- copies between devices


def _to_copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """`tensor.to(device, dtype)`, either way."""
    (tensor,) = args
    to = torch.device(kwargs.get("device") or tensor.device)
    own = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking", "pin_memory")}
    values = tensor.held if isinstance(tensor, PretendTensor) else tensor
    if tensor.device.type == to.type:
        return PretendTensor(func(values, **own))
    converted = func(values, **own)
    # a device converts where the tensor lies: bytes are counted before
    return _sent(values, converted, to, non_blocking=kwargs.get("non_blocking", False))


def _sent(values: Tensor, converted: Tensor, to: torch.device, *, non_blocking: bool) -> Tensor:
    to_device = to.type == DEVICE.type
    _count(values.nbytes, to_device=to_device)
    if not non_blocking:
        _wait("to device" if to_device else "cpu")
    if to_device:
        return PretendTensor(converted)
    if non_blocking:
        late, converted = converted, torch.empty_like(converted)
        _late(converted, late)
    return converted


def _late(target: Tensor, values: Tensor) -> None:
    """A copy that arrives with the next call that waits; until then its target holds nothing that makes sense."""
    if target.is_contiguous():
        target.view(-1).view(torch.uint8).fill_(0 if target.dtype is torch.bool else _UNSEEN)
    _on_their_way.append((target, values))


def _copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """`target.copy_(source)`, either way."""
    target, source, *rest = args
    non_blocking = kwargs.get("non_blocking", rest[0] if rest else False)
    ours = [isinstance(each, PretendTensor) for each in (target, source)]
    values = source.held if ours[1] else source
    if ours[0] == ours[1]:
        target.held.copy_(values)
        return target
    _count(values.nbytes, to_device=ours[0])
    if not non_blocking:
        _wait("to device" if ours[0] else "cpu")
    if ours[0]:
        target.held.copy_(values)
    elif non_blocking:
        _late(target, values.clone())
    else:
        target.copy_(values)
    return target


_SPECIAL: dict[str, Callable[..., Any]] = {
    "aten::_to_copy": _to_copy,
    "aten::copy_": _copy,
}


# ---------------------------------------------------------------- making torch know it


class _Module:
    """What torch asks of a device, as `torch.pretend`."""

    synchronize = staticmethod(synchronize)

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Its random numbers are the CPU's."""

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        """Of `torch.autocast`."""
        return [torch.bfloat16]

    @staticmethod
    def mem_get_info(device: Any = None) -> tuple[int, int]:
        """Free and total bytes, of which it pretends to have 1 GiB."""
        return 1 << 30, 1 << 30


def _factories() -> Iterator[tuple[str, Any]]:
    """Every operator that makes a tensor out of no tensor: torch finds those by the device, not by an argument."""
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, name, None) if full.startswith("aten::") else None
        op = getattr(packet, overload or "default", None)
        if op is None or "out" in overload:
            continue
        arguments = op._schema.arguments
        makes = len(op._schema.returns) == 1 and str(op._schema.returns[0].type) == "Tensor"
        if makes and any(a.name == "device" for a in arguments) and not any("Tensor" in str(a.type) for a in arguments):
            yield full, op


def _make(op: Any) -> Callable[..., Tensor]:
    def make(*args: Any, **kwargs: Any) -> Tensor:
        kwargs.pop("pin_memory", None)
        return PretendTensor(op(*args, **{**kwargs, "device": torch.device("cpu")}))

    return make


def _from_cpu(tensor: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """What `torch.tensor(..., device=...)` calls, past the dispatcher."""
    return _copy(None, (target, tensor, non_blocking), {})


_AUTOCAST = ("linear", "mm", "addmm", "bmm", "baddbmm", "matmul", "conv1d", "conv2d", "conv3d")
"""Operators that compute in the lower precision, as on other devices."""


def _autocast(op: Any) -> Callable[..., Any]:
    guard, key = torch._C._ExcludeDispatchKeyGuard, torch._C.DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]

    def narrowed(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype(DEVICE.type)
        with guard(torch._C.DispatchKeySet(key)):
            args, kwargs = pytree.tree_map_only(
                Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, (args, kwargs)
            )
            return op(*args, **kwargs)

    return narrowed


def _register_autocast() -> list[torch.library.Library]:
    others, library = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in _AUTOCAST:
        library.impl(name, _autocast(getattr(torch.ops.aten, name).default), "AutocastPrivateUse1")
    return [others, library]


def _register() -> torch.library.Library:
    _setup_privateuseone_for_python_backend("pretend", backend_module=_Module())
    library = torch.library.Library("aten", "IMPL")
    for name, op in _factories():
        library.impl(name, _make(op), "PrivateUse1")
    library.impl("_copy_from", _from_cpu, "PrivateUse1")
    return library


_libraries = [_register(), *_register_autocast()]
"""Registrations live as long as this."""
DEVICE = torch.device("pretend:0")
