"""Pass the stage of a curriculum on to environments that know stages."""

from __future__ import annotations

from typing import Any


def tell_stage(envs: list[Any], number: int) -> bool:
    """Call `set_stage(number)` of each that has it; False: none has."""
    told = [env.set_stage(number) for env in envs if callable(getattr(env, "set_stage", None))]
    return bool(told)
