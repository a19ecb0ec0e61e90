"""Data as JSON and back: what Program and its parts are made of. Tuples, dtypes, dataclasses and settings keep their type.

Plain values stay as they are. Everything else becomes `{"<kind>": ...}`, where the kind is one of those registered here or the
`module:Class` of a dataclass, a NamedTuple or a Config.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import BaseModel

from shoal.base.table import import_target

Codec = tuple[type, Callable[[Any], Any], Callable[[Any], Any]]
_CODECS: dict[str, Codec] = {
    "tuple": (tuple, lambda value: [to_plain(part) for part in value], lambda value: tuple(map(from_plain, value))),
    "dtype": (np.dtype, np.lib.format.dtype_to_descr, lambda value: np.lib.format.descr_to_dtype(described(value))),
}


def register(kind: str, cls: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Teach it one more type, which its own module knows best."""
    _CODECS[kind] = (cls, encode, decode)


def to_plain(value: Any) -> Any:
    """What `json.dumps` takes, and `from_plain` turns back into an equal value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [to_plain(part) for part in value]
    if isinstance(value, dict):
        return {"dict": [[to_plain(key), to_plain(part)] for key, part in value.items()]}
    if isinstance(value, tuple) and (fields := getattr(value, "_fields", None)) is not None:
        return {_name(value): to_plain(dict(zip(fields, value, strict=True)))}
    for kind, (cls, encode, _) in _CODECS.items():
        if isinstance(value, cls):
            return {kind: encode(value)}
    if isinstance(value, BaseModel):
        return {_name(value): to_plain(value.model_dump())}
    if dataclasses.is_dataclass(value):
        return {_name(value): to_plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})}
    raise TypeError(f"a {type(value).__name__} is no data: {value!r}")


def from_plain(plain: Any) -> Any:
    """The value that `to_plain` was given."""
    if isinstance(plain, list):
        return [from_plain(part) for part in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, value),) = plain.items()
    if kind == "dict":
        return {from_plain(key): from_plain(part) for key, part in value}
    if kind in _CODECS:
        return _CODECS[kind][2](value)
    cls, fields = import_target(kind, key="program"), from_plain(value)
    return cls.model_validate(fields) if issubclass(cls, BaseModel) else cls(**fields)


def _name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def described(kind: Any) -> Any:
    """How numpy describes a dtype, after JSON has made lists of its tuples: a list of fields, each name, type and shape."""
    if not isinstance(kind, list):
        return kind
    return [(name, described(type_), *(tuple(shape) for shape in rest)) for name, type_, *rest in kind]
