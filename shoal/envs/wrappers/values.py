"""A wrapper's name in the settings, and what stands behind it, checked. ValueError: what should stand there."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

KEY = "env.wrappers"


class Chosen(NamedTuple):
    """An entry of the list that is a name."""

    name: str
    value: Any

    @property
    def said(self) -> str:
        """How errors call it."""
        return f"{KEY} = '{self.name}'" if self.value is None else f"{KEY}.{self.name} = {self.value}"


def nothing(value: Any, name: str) -> None:
    """A wrapper without a value."""
    if value is not None:
        raise ValueError(f"it takes no value; write {name} alone")


def whole_number(value: Any, least: int, example: str) -> int:
    """A whole number that is large enough."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"should be a whole number, at least {least}, as in {example}")
    return value


def number(value: Any, above: float, below: float, example: str) -> float:
    """A number strictly between two."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and above < value < below
    if not good:
        bound = f"above {above:g}" if math.isinf(below) else f"between {above:g} and {below:g}"
        raise ValueError(f"should be a number {bound}, as in {example}")
    return float(value)
