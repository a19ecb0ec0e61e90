"""From behaviours to agent groups: who of a build plays in which group, at which place, in which of its areas.

`Soccer?team=0` and `Soccer?team=1` are one group `Soccer` of two sides, if they see and do the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from shoal.api.env import AgentGroup
from shoal.base.errors import InputError
from shoal.envs.unity.actions import ActionCodec
from shoal.envs.unity.observations import Sensor, sensors_of, space_of
from shoal.envs.unity.settings import UnityConfig


@dataclass
class Behaviour:
    """What is known of one behaviour of a build; `name` is the player's own, with its team."""

    name: str
    sensors: tuple[Sensor, ...]
    codec: ActionCodec
    living: int = 0
    """Most agents that lived at once."""
    masked: bool = False
    """A mask that forbade something was seen."""
    grouped: bool = False
    """Its agents belong to groups that earn rewards together."""

    @property
    def stem(self) -> str:
        """The name without its team."""
        return self.name.partition("?")[0]

    @property
    def team(self) -> str:
        """`0`, `1`, ..."""
        match = re.search(r"[?&]team=(\d+)", self.name)
        return match[1] if match else "0"

    def alike(self, other: Behaviour) -> bool:
        """They see and do the same."""
        mine, theirs = ([(s.shape, s.compressed) for s in each.sensors] for each in (self, other))
        return mine == theirs and self.codec.alike(other.codec)


@dataclass(frozen=True)
class Side:
    """The agents of one behaviour: places `first` to `first + count` of a group, in every area."""

    behaviour: Behaviour
    group: str
    first: int
    count: int


@dataclass
class Layout:
    """Of all builds of an environment."""

    areas: int
    """Copies in a build."""
    groups: dict[str, AgentGroup] = field(default_factory=dict)
    masked: dict[str, bool] = field(default_factory=dict)
    sides: dict[str, Side] = field(default_factory=dict)
    """Behaviour -> where its agents play."""
    shared_reward: bool = False
    """Agents earn rewards as groups."""


def describe(name: str, info: Any, said: Any, bins: int) -> Behaviour:
    """By what the player said of a behaviour, and by one of its agents."""
    actions = said.actions
    if not said.HasField("actions"):
        raise InputError(
            f"behaviour '{name}' comes from an ML-Agents package before 1.8: build the game with a newer one"
        )
    codec = ActionCodec(name, actions.continuous, tuple(actions.branches[: actions.discrete]), bins)
    return Behaviour(name, sensors_of(info), codec)


def lay_out(found: dict[str, Behaviour], config: UnityConfig, env_id: str) -> Layout:
    """Who plays where. The behaviours are in the order of their names, so that every build has the same groups."""
    behaviours = [found[name] for name in sorted(found)]
    areas = _areas(behaviours, config)
    layout = Layout(areas, shared_reward=any(each.grouped for each in behaviours))
    for stem, members in _groups(behaviours).items():
        agents: list[str] = []
        for each in members:
            count = _count(each, areas, config, env_id)
            layout.sides[each.name] = Side(each, stem, len(agents), count)
            named = f"{stem}_team{each.team}" if len(members) > 1 else stem
            agents += [f"{named}_{i}" for i in range(count)]
        space = space_of(members[0].sensors, members[0].name)
        layout.groups[stem] = AgentGroup(tuple(agents), space, members[0].codec.space)
        masks = any(each.masked for each in members) if config.masks is None else config.masks
        layout.masked[stem] = masks and members[0].codec.mask_width > 0
    return layout


def _areas(behaviours: list[Behaviour], config: UnityConfig) -> int:
    if config.areas is not None or config.num_areas > 1:
        return config.areas or config.num_areas
    alone = len(behaviours) == 1 and not behaviours[0].grouped and not config.agents
    return max(1, behaviours[0].living) if alone else 1


def _groups(behaviours: list[Behaviour]) -> dict[str, list[Behaviour]]:
    """Teams of one behaviour side by side, unless they differ; under names that suit files."""
    groups: dict[str, list[Behaviour]] = {}
    for each in behaviours:
        stem = re.sub(r"[^\w.-]+", "_", each.stem)
        if stem in groups and not each.alike(groups[stem][0]):
            stem = f"{stem}_team{each.team}"
        groups.setdefault(stem, []).append(each)
    return groups


def _count(behaviour: Behaviour, areas: int, config: UnityConfig, env_id: str) -> int:
    """Places of a behaviour in one area."""
    told = config.agents.get(behaviour.name, config.agents.get(behaviour.stem))
    if told is not None:
        return told
    if behaviour.living % areas:
        raise InputError(
            f"env.kwargs.areas = {areas}: '{env_id}' has {behaviour.living} agents of '{behaviour.name}', which do not divide "
            f"into so many areas: say env.kwargs.agents.{behaviour.stem}, how many an area has"
        )
    return max(1, behaviour.living // areas)
