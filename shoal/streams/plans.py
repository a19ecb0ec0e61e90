"""Which streams there are, how large, and who is at their ends: data, from which every transport makes its own.

Names only tell streams apart. Whatever a transport has to know of one is a field of its plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.base.arrays import Layout

CONTROLLER = "controller"
"""Who is at the end of a ring that the launcher's own process writes, in the place of a process of the Program."""


class RingPlan(NamedTuple):
    """One ring, and the processes at its two ends."""

    layout: Layout
    slots: int
    writer: str
    """A process, or CONTROLLER: then the launcher has the ring itself, from before the first process starts."""
    reader: str
    counted: bool = False
    """Its slots carry rows, and the ring's books say what became of them."""


class BoxPlan(NamedTuple):
    """One mailbox, and the processes that read it, or write it."""

    nbytes: int
    versions: int
    users: tuple[str, ...]
    writer: str | None = None
    """One of the users; None: the controller writes it."""
    every: bool = False
    """All versions travel to other machines; otherwise only the newest of those that came while the last was on its way."""


class TallyPlan(NamedTuple):
    """One tally, and the processes that take part."""

    ranks: int
    nbytes: int
    users: tuple[str, ...]


class SharedPlan(NamedTuple):
    """Parameters that hogwild replicas write, in the place of a mailbox; `beside` is what else they share."""

    nbytes: int
    replicas: int
    beside: int
    users: tuple[str, ...]


@dataclass
class Wiring:
    """All streams of a Program, by name."""

    rings: dict[str, RingPlan] = field(default_factory=dict)
    boxes: dict[str, BoxPlan] = field(default_factory=dict)
    tallies: dict[str, TallyPlan] = field(default_factory=dict)
    shared: dict[str, SharedPlan] = field(default_factory=dict)
    replicas: tuple[str, ...] = ()
    """The processes of the trainers, by rank."""
