"""A space of settings: values as places between 0 and 1 on their own scale, and back. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.api.population import RangeConfig

Space = Mapping[str, RangeConfig]


def to_unit(range_: RangeConfig, value: Any) -> float:
    """Where a value lies: 0 at the lower end, 1 at the upper. What lies outside counts as the end."""
    low, high = range_.bounds
    if range_.choice is not None:
        value = range_.choice.index(value) if value in range_.choice else 0
    value = min(max(float(value), low), high)
    low, value, high = (_scaled(range_, each) for each in (low, value, high))
    return (value - low) / (high - low)


def from_unit(range_: RangeConfig, place: float) -> Any:
    """The value at a place, within its bounds to the last bit, whole where it has to be."""
    low, high = range_.bounds
    place = min(max(place, 0.0), 1.0)
    first, last = _scaled(range_, low), _scaled(range_, high)
    ends = {0.0: low, 1.0: high}
    value = ends.get(place, min(max(_unscaled(range_, first + place * (last - first)), low), high))
    if range_.choice is not None:
        return range_.choice[round(value)]
    return min(max(round(value), math.ceil(low)), math.floor(high)) if range_.whole else value


def draw(space: Space, random: np.random.Generator) -> dict[str, Any]:
    """Anywhere in the space."""
    return {key: from_unit(range_, float(random.random())) for key, range_ in space.items()}


def perturb(space: Space, values: Mapping[str, Any], sigma: float, random: np.random.Generator) -> dict[str, Any]:
    """A step away from `values`, on the scale of each; a choice or a whole number moves by one at least."""
    found = {}
    for key, range_ in space.items():
        step, place = float(random.normal(0.0, sigma)), to_unit(range_, values[key])
        found[key] = from_unit(range_, place + step)
        if found[key] == values[key] and (range_.choice is not None or range_.whole):
            low, high = range_.bounds
            number = range_.choice.index(values[key]) if range_.choice is not None else values[key]
            number = min(max(number + (1 if step > 0 else -1), low), high)
            found[key] = range_.choice[int(number)] if range_.choice is not None else int(number)
    return found


def _scaled(range_: RangeConfig, value: float) -> float:
    if range_.log is not None:
        return math.log(value)
    return math.log(value / (1 - value)) if range_.logit is not None else value


def _unscaled(range_: RangeConfig, value: float) -> float:
    if range_.log is not None:
        return math.exp(value)
    return 1 / (1 + math.exp(-value)) if range_.logit is not None else value
