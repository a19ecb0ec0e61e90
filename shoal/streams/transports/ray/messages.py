"""What agents of different machines say to each other. All of it carries numbers that only grow: what comes twice is passed over.

Deliver     writer's machine -> reader's: a slot of a ring
Credit      reader's machine -> writer's: what was freed of it
Version     publisher's machine -> all others that read it
Reported    any machine -> the controller: what its processes reported
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from shoal.api.worker import Pulse


class Deliver(NamedTuple):
    """A slot of a ring, for the machine that reads it."""

    ring: str
    number: int
    packed: list[np.ndarray]


class Credit(NamedTuple):
    """All slots of a ring before `freed` are free, for the machine that writes it."""

    ring: str
    freed: int
    ledger: bytes
    """The header of the last of them, where slots have one."""


class Version(NamedTuple):
    """A version of a mailbox."""

    box: str
    number: int
    packed: Any
    """uint8 [n]; on its way, what `Courier.put` made of it."""
    keep: list[int]
    """Versions that stay."""


class Said(NamedTuple):
    """One message of a process on its control stream."""

    process: int
    incarnation: int
    message: bytes


class Pulses(NamedTuple):
    """The signs of life of the processes of a machine, told while one of them is silent, and once more when none is."""

    pulses: dict[int, tuple[int, Pulse]]
    """Process -> which life of it, and its signs."""


class Arrived(NamedTuple):
    """A process has begun a life."""

    process: int
    incarnation: int
    pid: int


class HungUp(NamedTuple):
    """A process has hung up: it is dead, or about to be."""

    process: int
    incarnation: int


News = Said | Pulses | Arrived | HungUp
"""What the agent of a machine hears of its processes."""


class Reported(NamedTuple):
    """What the processes of a machine reported, for the controller."""

    number: int
    batch: list[News]


Message = Deliver | Credit | Version | Reported


class Peer(Protocol):
    """What an agent calls at the Ray actor of another machine."""

    def receive(self, sender: str, messages: list[Message]) -> None:
        """Take these, in order, and return at once."""

    def receive_version(self, sender: str, box: str, number: int, packed: np.ndarray, keep: list[int]) -> None:
        """A Version by itself: Ray fetches the object behind a reference only for an argument of its own."""
