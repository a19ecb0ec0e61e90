"""Settings that may change while a run goes on: which they are, how a change is checked, how changes are kept with the state.

A field of a config may change if its type is `Live[...]`. A change is checked by parsing the whole config with it laid over,
so it fails with the message that the same value gets in a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

import torch
from torch import Tensor

from shoal.base.config import Config, Schedule
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean

AT = "algorithm"
KEY = "settings"
"""Of `Algorithm.state_dict`: uint8 `[n]`, JSON of what was changed; absent where nothing was."""

Value = TypeVar("Value")
Settings = TypeVar("Settings", bound=Config)


class _Live:
    """Marks a field."""


Live = Annotated[Value, _Live()]
"""The type of a setting that may change while a run goes on."""


def live_settings(config: Config, prefix: str = "") -> dict[str, Any]:
    """Key -> value of all that may change, `novelty.weight` for those of sections that are there."""
    found: dict[str, Any] = {}
    for key, value, live in _fields(config):
        if live:
            found[prefix + key] = value
        elif isinstance(value, Config):
            found |= live_settings(value, f"{prefix}{key}.")
    return found


def reconfigured(config: Settings, changes: Mapping[str, Any], fixed: Mapping[str, str]) -> Settings:
    """A config with changes laid over. `fixed`: keys that may not change in this very run, and what to do instead."""
    live = {key: value for key, value in live_settings(config).items() if key not in fixed}
    for key, value in changes.items():
        if key in fixed:
            raise InputError(f"{AT}.{key} = {value!r} cannot be changed in this run: {fixed[key]}")
        if key not in live:
            raise InputError(_refusal(config, key, value, live))
    return _laid_over(config, changes)


def settings_state(config: Config, built: Config) -> dict[str, Tensor]:
    """What a state has to keep of settings that were changed since the algorithm was built."""
    before = live_settings(built)
    changed = {key: _plain(value) for key, value in live_settings(config).items() if value != before[key]}
    if not changed:
        return {}
    return {KEY: torch.tensor(list(json.dumps(changed).encode()), dtype=torch.uint8)}


def restored_settings(built: Settings, state: Mapping[str, Tensor]) -> Settings:
    """The settings of a state: those that the algorithm was built with, and the changes that the state brings."""
    if KEY not in state:
        return built
    return _laid_over(built, json.loads(bytes(state[KEY].tolist())))


def check_schedules(config: Config, horizon: int | None, at: str = AT) -> None:
    """A schedule needs an end."""
    for key, value in config:
        if isinstance(value, Schedule):
            if value.steps is None and horizon is None:
                raise InputError(f"{at}.{key} has no end: give it `steps`, or set stop.steps")
        elif isinstance(value, Config):
            check_schedules(value, horizon, f"{at}.{key}")


def _fields(config: Config) -> Iterator[tuple[str, Any, bool]]:
    for key, info in type(config).model_fields.items():
        yield key, getattr(config, key), any(isinstance(mark, _Live) for mark in info.metadata)


def _laid_over(config: Settings, changes: Mapping[str, Any]) -> Settings:
    values = config.model_dump()
    for key, value in changes.items():
        *sections, last = key.split(".")
        below = values
        for section in sections:
            below = below[section]
        below[last] = _plain(value)
    return type(config).parse(values, at=AT)


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, Config) else value


def _refusal(config: Config, key: str, value: Any, live: Mapping[str, Any]) -> str:
    """Why a key that may not change may not."""
    section, _, last = key.rpartition(".")
    below: Any = config
    for part in section.split(".") if section else ():
        below = getattr(below, part, None) if isinstance(below, Config) and part in type(below).model_fields else None
    if not isinstance(below, Config) or last not in type(below).model_fields:
        return f"{AT}.{key} = {value!r}: there is no such setting to change; {did_you_mean(key, live)}"
    return (
        f"{AT}.{key} = {value!r} cannot be changed while a run goes on: start a new run with it "
        f"(what can be changed: {', '.join(sorted(live))})"
    )
