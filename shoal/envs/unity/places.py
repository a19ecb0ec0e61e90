"""Which agent of a build has which place. The player numbers an agent anew with every episode: agents come and go, places stay.

Places are given in the order in which they became free, agents come in the order of their numbers: so the next episode of an agent
has the place of its last one. Who belongs to a group of agents gets a place that its group had, if one is free.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.envs.unity.layout import Layout


class Place(NamedTuple):
    """Of one agent."""

    group: str
    area: int
    slot: int
    """Within it."""


class Places:
    """Of one build, from one reset to the next."""

    def __init__(self, layout: Layout) -> None:
        self._free: dict[str, list[Place]] = {
            name: [Place(side.group, area, side.first + i) for area in range(layout.areas) for i in range(side.count)]
            for name, side in layout.sides.items()
        }
        self._taken: dict[tuple[str, int], Place] = {}
        self._team: dict[Place, int] = {}

    def of(self, behaviour: str, agent: int) -> Place | None:
        """That of an agent who lives."""
        return self._taken.get((behaviour, agent))

    def take(self, behaviour: str, agent: int, group: int) -> Place | None:
        """A place for a new agent; None: all are taken. `group`: the number of its group, 0: none."""
        free = self._free[behaviour]
        if not free:
            return None
        at = next((i for i, place in enumerate(free) if group and self._team.get(place) == group), 0)
        place = free.pop(at)
        self._taken[behaviour, agent] = place
        self._team[place] = group
        return place

    def leave(self, behaviour: str, agent: int) -> Place | None:
        """The agent is out; where it was."""
        place = self._taken.pop((behaviour, agent), None)
        if place is not None:
            self._free[behaviour].append(place)
        return place

    def living(self) -> list[Place]:
        """Those that are taken."""
        return list(self._taken.values())
