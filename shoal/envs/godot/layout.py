"""From what a game says of its agents to agent groups: agents of one policy name are a group, in equal shares for every area."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.base.errors import InputError
from shoal.envs.godot.settings import GodotConfig
from shoal.envs.mixed_actions import MixedActions

SHARED = "shared_policy"
"""What games call the policy of all their agents."""


class Kind:
    """How agents of one policy see and act."""

    def __init__(self, policy: str, sees: dict[str, Any], acts: dict[str, Any], bins: int) -> None:
        self.described = sees, acts
        self.parts = {key: _space(policy, key, part) for key, part in sees.items()}
        self.space: Space[Any] = (
            next(iter(self.parts.values())) if len(self.parts) == 1 else Dict([*self.parts.items()])
        )
        self._numbers = {key: int(part["size"]) for key, part in acts.items() if part["action_type"] == "continuous"}
        self._picks = {key: int(part["size"]) for key, part in acts.items() if part["action_type"] == "discrete"}
        if len(self._numbers) + len(self._picks) < len(acts):
            raise InputError(f"policy '{policy}': its actions {acts} are neither continuous nor discrete")
        self.actions = MixedActions(f"policy '{policy}'", sum(self._numbers.values()), (*self._picks.values(),), bins)

    def read(self, observations: list[dict[str, Any]]) -> list[Array]:
        """What some agents see, an array `[agents, ...]` per part; ValueError or KeyError where it does not fit."""
        return [self._read(key, space, [each[key] for each in observations]) for key, space in self.parts.items()]

    def encode(self, actions: Array) -> list[dict[str, Any]]:
        """`[agents, ...]` -> action by name, of each."""
        numbers, picked = (part.tolist() for part in self.actions.split(actions))
        return [self._named(*each) for each in zip(numbers, picked, strict=True)]

    @property
    def default(self) -> dict[str, Any]:
        """Of somebody whom nobody looks at."""
        return self._named([0.0] * sum(self._numbers.values()), [0] * len(self._picks))

    def _named(self, numbers: list[float], picked: list[int]) -> dict[str, Any]:
        named, at = {}, 0
        for key, size in self._numbers.items():
            named[key], at = numbers[at : at + size], at + size
        return named | dict(zip(self._picks, picked, strict=True))

    def _read(self, key: str, space: Space[Any], values: list[Any]) -> Array:
        if space.dtype == np.uint8:
            array = np.frombuffer(b"".join(map(bytes.fromhex, values)), np.uint8)
        else:
            array = np.asarray(values, space.dtype)
        shape = (len(values), *(space.shape or ()))
        if array.size != math.prod(shape):
            raise ValueError(f"observation '{key}' has {array.size} numbers where {shape} were due")
        if array.dtype == np.float32 and not np.isfinite(array).all():
            raise ValueError(f"observation '{key}' holds a number that is not finite")
        return array.reshape(shape)


@dataclass
class Layout:
    """Of all games of an environment."""

    areas: int
    kinds: dict[str, Kind] = field(default_factory=dict)
    groups: dict[str, AgentGroup] = field(default_factory=dict)
    members: dict[str, list[int]] = field(default_factory=dict)
    """Group -> the numbers of its agents in the game, area by area."""
    agents: int = 0


def lay_out(info: dict[str, Any], config: GodotConfig, env_id: str) -> Layout:
    """By the game's `env_info`; ValueError, TypeError or KeyError where it makes no sense."""
    count = int(info["n_agents"])
    policies = info.get("agent_policy_names") or [SHARED] * count
    sees, acts = (_each(info[key], count) for key in ("observation_space", "action_space"))
    if count < 1 or len(policies) != count:
        raise ValueError(f"the game has {count} agents and {len(policies)} names of policies")
    areas = config.areas or (count if len(set(policies)) == 1 else 1)
    layout = Layout(areas, agents=count)
    for number, policy in enumerate(policies):
        name = re.sub(r"[^\w.-]+", "_", policy)
        if name not in layout.kinds:
            layout.kinds[name] = Kind(policy, sees[number], acts[number], config.bins)
        elif layout.kinds[name].described != (sees[number], acts[number]):
            raise InputError(
                f"env.id = '{env_id}': agents of policy '{policy}' differ in what they see or do: give them two names"
            )
        layout.members.setdefault(name, []).append(number)
    for name, numbers in layout.members.items():
        if len(numbers) % areas:
            raise InputError(f"env.kwargs.areas = {areas} does not divide the {len(numbers)} agents of policy '{name}'")
        agents = tuple(f"{name}_{i}" for i in range(len(numbers) // areas))
        kind = layout.kinds[name]
        layout.groups[name] = AgentGroup(agents, kind.space, kind.actions.space)
    return layout


def _each(described: Any, count: int) -> list[dict[str, Any]]:
    """Of every agent; older games describe one for all."""
    return [described] * count if isinstance(described, dict) else list(described)


def _space(policy: str, key: str, part: dict[str, Any]) -> Space[Any]:
    if part["space"] == "discrete":
        return Discrete(int(part["size"]))
    if part["space"] != "box":
        raise InputError(f"policy '{policy}': observation '{key}' is a {part['space']}, not box or discrete")
    shape = tuple(map(int, part["size"]))
    if "2d" in key:
        return Box(0, 255, shape, np.uint8)
    return Box(part.get("low", -np.inf), part.get("high", np.inf), shape, np.float32)
