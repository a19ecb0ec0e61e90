"""A live population for Prometheus: how many members are in which state, the best score, turns; where it stands in, a page out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.monitoring.metric_families import counter, gauge

if TYPE_CHECKING:
    from prometheus_client import Metric


@dataclass(frozen=True)
class PopulationStanding:
    """Where a population stands. Counts are those of its journal: they go on when it is resumed."""

    members: Mapping[str, int]
    """State -> how many."""
    slots: int
    busy: int
    """Slots with a member in them."""
    paused: bool
    best: float | None
    """The best of the members' newest scores."""
    steps: int
    turns: int
    """That came to their end."""
    crashes: int
    copies: int
    core_seconds: float


class PopulationCollector:
    """Makes the page of whatever was said last; the population's thread replaces it, and never changes it."""

    def __init__(self, info: Mapping[str, str], now: PopulationStanding) -> None:
        self._info, self.now = info, now

    def describe(self) -> Iterable[Metric]:
        """Nothing is made before somebody asks."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        now = self.now
        yield gauge("population_info", "The population; always 1.", {tuple(self._info.values()): 1}, *self._info)
        yield gauge("population_paused", "1 while a person lets the population wait.", float(now.paused))
        yield gauge("population_members", "Members, by what they do or how they ended.", now.members, "state")
        yield gauge("population_slots", "Members that may be trained at once.", now.slots)
        yield gauge("population_busy_slots", "Slots with a member in them.", now.busy)
        yield gauge("population_best_score", "The best of the members' newest scores.", now.best)
        yield counter("population_env_steps", "Environment steps of all members.", now.steps)
        yield counter("population_turns", "Turns of members that came to their end.", now.turns)
        yield counter(
            "population_crashes", "Turns that came to no end, after which members were tried again.", now.crashes
        )
        yield counter("population_copies", "Times that a member took over what another had learned.", now.copies)
        yield counter("population_core_seconds", "Time on cores, in turns that ended.", now.core_seconds)
