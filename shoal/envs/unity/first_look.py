"""A first look at a build: some steps with default actions, in which its behaviours and agents are counted."""

from __future__ import annotations

import time
from typing import Any

from shoal.base.errors import ShoalError
from shoal.envs.unity.build import Build
from shoal.envs.unity.layout import Behaviour, describe
from shoal.envs.unity.settings import UnityConfig


def look_at(build: Build, config: UnityConfig) -> dict[str, Behaviour]:
    """Behaviour -> what is known of it. Afterwards the player waits for a reset."""
    found: dict[str, Behaviour] = {}
    living: dict[str, set[int]] = {}
    deadline = time.monotonic() + config.start_timeout
    build.reset(0)
    for step in range(1_000_000):
        output = build.take(max(0.1, deadline - time.monotonic()))
        deciding = {
            name: _count(build, config, name, infos.value, found, living) for name, infos in output.agents.items()
        }
        awaited = _awaited(config, found)
        if step + 1 >= config.look and found and not awaited:
            return found
        if time.monotonic() > deadline:
            seen = ", ".join(found) or "none"
            raise ShoalError(
                f"{build.name}: behaviour '{(awaited or ['any'])[0]}' of env.kwargs.agents did not appear within start_timeout = "
                f"{config.start_timeout:g} s; seen: {seen}"
            )
        build.step({name: [found[name].codec.default] * count for name, count in deciding.items() if count})
    raise AssertionError("a look ends by its deadline")


def _count(
    build: Build, config: UnityConfig, name: str, infos: Any, found: dict[str, Behaviour], living: dict[str, set[int]]
) -> int:
    """Take in the agents of one behaviour; how many of them decide."""
    if not infos:
        return 0
    if name not in found:
        if name not in build.behaviours:
            raise build.failure(f"agents of behaviour '{name}' came before the player said what they do")
        found[name] = describe(name, infos[0], build.behaviours[name], config.bins)
    behaviour, alive = found[name], living.setdefault(name, set())
    for info in infos:  # one may decide and end in the same message
        (alive.discard if info.done else alive.add)(info.id)
    behaviour.living = max(behaviour.living, len(alive))
    behaviour.masked |= any(any(info.mask) for info in infos)
    behaviour.grouped |= any(info.group_id for info in infos)
    return sum(not info.done for info in infos)


def _awaited(config: UnityConfig, found: dict[str, Behaviour]) -> list[str]:
    """Behaviours that settings name and nobody saw."""
    names = {name for each in found.values() for name in (each.name, each.stem)}
    return [name for name in config.agents if name not in names]
