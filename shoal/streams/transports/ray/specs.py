"""What one machine has a part in: the controller writes it, the machine's agent makes it so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.base.arrays import Layout
from shoal.streams.transports.ray.relay import RingState
from shoal.streams.transports.shm.segment import SegmentHandle


class RingSpec(NamedTuple):
    """A ring of which at least one end is here."""

    layout: Layout
    slots: int
    writer: str
    """The process that writes; empty: it is on another machine."""
    reader: str
    peer: str
    """That other machine; empty: there is none, or none yet."""
    state: RingState | None
    """Where to go on, if the ring is not here yet."""
    counted: bool = False
    """Its ledger says what became of rows."""


class BoxSpec(NamedTuple):
    """A mailbox that somebody reads or writes here."""

    nbytes: int
    versions: int
    halved: int
    every: bool
    users: tuple[str, ...]
    subscribers: tuple[str, ...]
    """Other machines, if it is written here."""


class TallySpec(NamedTuple):
    """Where replicas meet that all live here."""

    ranks: int
    nbytes: int


@dataclass
class NodeSpec:
    """All that one machine has a part in."""

    rings: dict[str, RingSpec] = field(default_factory=dict)
    boxes: dict[str, BoxSpec] = field(default_factory=dict)
    tallies: dict[str, TallySpec] = field(default_factory=dict)


class AgentFacts(NamedTuple):
    """What a process needs to find its agent."""

    pid: int
    socket: str
    key: bytes
    heartbeats: SegmentHandle
