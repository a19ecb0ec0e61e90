"""Episodes that are cut off: as truncations, since there would have been a future."""

from __future__ import annotations

from typing import Any

from shoal.api.env import Env
from shoal.base.errors import InputError
from shoal.envs.wrappers.values import Chosen, whole_number
from shoal.envs.wrappers.wrapper import EnvWrapper


class TimeLimit(EnvWrapper):
    """Episodes are truncated after so many steps of their copy."""

    def __init__(self, env: Env, chosen: Chosen, *, name: str, first_slot: int) -> None:
        super().__init__(env)
        if not env.limit_time(chosen.value):
            raise InputError(
                f"{chosen.said}: '{name}' ends its episodes itself and cannot be told to cut one off: "
                "set a limit of its own in env.kwargs, or write env.vector=loop where it has single copies"
            )

    @classmethod
    def check(cls, value: Any) -> int:
        """Steps."""
        return whole_number(value, 1, "time_limit: 500")
