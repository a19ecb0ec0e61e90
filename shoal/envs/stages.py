"""How worlds of other people hear of the stages of a curriculum."""

from __future__ import annotations

from typing import Any


def tell_stage(worlds: list[Any], number: int) -> bool:
    """Call `set_stage(number)` of each that has it; False: none has."""
    told = [world.set_stage(number) for world in worlds if callable(getattr(world, "set_stage", None))]
    return bool(told)
