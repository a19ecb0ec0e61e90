"""Wrappers by name: what `env.wrappers` may list beside Gymnasium wrappers of the user's own. Light to import.

A name goes around the whole batch, `module:Class` around each single copy. So the names come last in the list.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shoal.base.errors import InputError
from shoal.base.table import did_you_mean, import_target
from shoal.envs.wrappers.values import KEY, Chosen

if TYPE_CHECKING:
    from shoal.api.env import Env
    from shoal.api.experiment import EnvConfig

NORMALISE, REWARD_SCALE = "normalise", "reward_scale"
WRAPPERS = {
    NORMALISE: "shoal.envs.wrappers.by_others:Normalise",
    "frame_stack": "shoal.envs.wrappers.frame_stack:FrameStack",
    "time_limit": "shoal.envs.wrappers.time_limit:TimeLimit",
    "flatten": "shoal.envs.wrappers.observations:Flatten",
    "one_hot": "shoal.envs.wrappers.observations:OneHot",
    "sticky": "shoal.envs.wrappers.sticky:Sticky",
    REWARD_SCALE: "shoal.envs.wrappers.by_others:RewardScale",
}
"""Name -> class, imported only when chosen."""


def single_wrappers(config: EnvConfig) -> list[str]:
    """Those that go around single copies: `module:Class`."""
    _check_order(config)
    return [entry for entry in config.wrappers if isinstance(entry, str) and ":" in entry]


def chosen_wrappers(config: EnvConfig) -> list[Chosen]:
    """Those that go by a name, with their values checked, the innermost first."""
    _check_order(config)
    return [_checked(_chosen(entry)) for entry in config.wrappers if not _is_target(entry)]


def wrap(env: Env, config: EnvConfig, first_slot: int) -> Env:
    """`env` inside those wrappers. `first_slot`: see `shoal.envs.make_env`."""
    from shoal.envs.wrappers.wrapper import EnvWrapper

    try:
        for wrapper in chosen_wrappers(config):
            cls = _load(wrapper)
            if issubclass(cls, EnvWrapper):
                env = cls(env, wrapper, name=config.id, first_slot=first_slot)
    except BaseException:
        env.close()
        raise
    return env


def normalises(config: EnvConfig) -> bool:
    """Policies keep running statistics of what they see."""
    return any(wrapper.name == NORMALISE for wrapper in chosen_wrappers(config))


def learnt_scale(config: EnvConfig) -> float:
    """What rewards are multiplied by before anybody learns from them."""
    return math.prod(wrapper.value for wrapper in chosen_wrappers(config) if wrapper.name == REWARD_SCALE)


# ---------------------------------------------------------------- entries


def _is_target(entry: str | dict[str, Any]) -> bool:
    return isinstance(entry, str) and ":" in entry


def _chosen(entry: str | dict[str, Any]) -> Chosen:
    return Chosen(entry, None) if isinstance(entry, str) else Chosen(*next(iter(entry.items())))


def _checked(wrapper: Chosen) -> Chosen:
    try:
        return Chosen(wrapper.name, _load(wrapper).check(wrapper.value))
    except ValueError as error:
        raise InputError(f"{wrapper.said}: {error}") from None


def _load(wrapper: Chosen) -> Any:
    if wrapper.name not in WRAPPERS:
        raise InputError(
            f"{KEY} = '{wrapper.name}' is not known; {did_you_mean(wrapper.name, WRAPPERS)} "
            "(or your own Gymnasium wrapper, module:Name)"
        )
    return import_target(WRAPPERS[wrapper.name], key=KEY)


def _check_order(config: EnvConfig) -> None:
    named: str | None = None
    for entry in config.wrappers:
        if not _is_target(entry):
            named = _chosen(entry).name
        elif named is not None:
            raise InputError(
                f"{KEY} = '{entry}' goes around single copies and '{named}' around all of them: list it before '{named}'"
            )
