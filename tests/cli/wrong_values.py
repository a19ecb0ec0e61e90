"""Wrong values for every key of a config, made from its own types and ranges."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shoal.base.config import Named, Schedule


def keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Every key below `prefix`, sections and what is in them; of dicts whose values are sections, those of one called `a`."""
    for name, info in model.model_fields.items():
        key = f"{prefix}.{info.alias or name}".lstrip(".")
        yield key, info
        for kind in _kinds(info.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and not issubclass(kind, Named):
                yield from keys(kind, f"{key}.a" if _in_a_dict(info) else key)


def wrong_values(info: FieldInfo) -> list[str]:
    """As YAML: of another type, not finite, out of range."""
    kinds, marks = _kinds(info.annotation), list(_marks(info))
    values = ["[nonsense, {}]"] if str in kinds or Named in kinds else ["nonsense"]
    if _is_list(info):
        values = ["nonsense", "{a: 1}"]
    if int in kinds or float in kinds:
        values += ["true", "[true]"]
    if int in kinds and float not in kinds:
        values += ["1.5"]
    if float in kinds and not _is_list(info):
        values += [".nan", ".inf"]
    if Schedule in kinds:  # of these, none may be below zero
        values += ["-1", "{start: -1, end: 1, steps: 5}", "{start: 1, end: -1, steps: 5}"]
    if float in kinds and str in kinds:
        values += ["nonsense", "0", "-3", "0 steps", "-3 updates"]
    if kinds & {int, float}:
        values += [_listed(info, _beyond(mark)) for mark in marks]
    return values


def misspelt(key: str) -> str:
    """The last letter twice."""
    return key + key[-1]


def _beyond(bound: Any) -> str:
    match bound:
        case annotated_types.Ge(ge=low):
            return f"{low - 1}"
        case annotated_types.Gt(gt=low):
            return f"{low}"
        case annotated_types.Le(le=high):
            return f"{high + 1}"
        case annotated_types.Lt(lt=high):
            return f"{high}"
    raise AssertionError(f"no value is known beyond {bound}")


def _listed(info: FieldInfo, value: str) -> str:
    if _in_a_dict(info):
        return f"{{a: {value}}}"
    return f"[{value}, {value}]" if _is_list(info) else value


def _marks(info: FieldInfo) -> Iterator[Any]:
    bounds = annotated_types.Ge | annotated_types.Gt | annotated_types.Le | annotated_types.Lt
    for mark in (*info.metadata, *_nested_marks(info.annotation)):
        if isinstance(mark, bounds):
            yield mark


def _nested_marks(annotation: Any) -> Iterator[Any]:
    for mark in getattr(annotation, "__metadata__", ()):
        yield from mark.metadata if isinstance(mark, FieldInfo) else [mark]
    for part in typing.get_args(annotation):
        yield from _nested_marks(part)


def _kinds(annotation: Any) -> set[Any]:
    """The plain types that an annotation is made of."""
    origin = typing.get_origin(annotation)
    if origin is Literal or annotation in (Any, types.NoneType):
        return set()
    parts = typing.get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        parts = parts[:1]
    if origin is dict:
        parts = parts[1:]
    return set().union(*map(_kinds, parts)) if parts else {annotation}


def _is_list(info: FieldInfo) -> bool:
    return "list[" in str(info.annotation)


def _in_a_dict(info: FieldInfo) -> bool:
    return typing.get_origin(info.annotation) is dict
