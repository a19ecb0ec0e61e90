"""What the parent knows of its children: who is there, what each has, what it has given."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.federation.codecs import Vector
from shoal.federation.messages import Contribution
from shoal.workers.parent_link import Statistics


@dataclass(eq=False)
class Child:
    """One of them, connected or not."""

    name: str
    number: int = 0
    """Of its connection; 0: it is not connected."""
    where: str = ""
    session: str = ""
    taken: int = -1
    """The newest round of that session that was taken in."""
    base: Vector = field(default_factory=lambda: np.zeros(0, np.float32))
    """The parameters that it has of the parent, to the bit."""
    statistics: Statistics = field(default_factory=lambda: np.zeros(0))
    """The same of the normalisers."""
    version: int = 0
    """Which version that is."""
    samples: int = 0
    """Of its last round."""
    rounds: int = 0
    staleness: int = 0
    score: float | None = None
    nbytes: int = 0
    """Of the last round, both ways."""
    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=20))
    """When rounds ended, and their bytes."""

    @property
    def connected(self) -> bool:
        """It is there."""
        return self.number > 0

    def joined(self, number: int, session: str, where: str) -> None:
        """It is there, perhaps again; a new life of it counts its rounds anew."""
        if session != self.session:
            self.session, self.taken = session, -1
        self.number, self.where = number, where

    def heard(self, header: Contribution, nbytes: int, staleness: int) -> None:
        """A round of it came."""
        self.rounds += 1
        self.staleness, self.nbytes = staleness, nbytes
        if header.score is not None:
            self.score = header.score
        self.marks.append((time.monotonic(), nbytes))

    @property
    def rate(self) -> float:
        """Bytes per second."""
        if len(self.marks) < 2:
            return 0.0
        return sum(nbytes for _, nbytes in self.marks) / max(time.monotonic() - self.marks[0][0], 1e-3)

    def row(self, strikes: int) -> dict[str, Any]:
        """For people."""
        return {
            "name": self.name, "connected": self.connected, "where": self.where, "rounds": self.rounds,
            "staleness": self.staleness, "bytes/s": round(self.rate), "score": self.score, "strikes": strikes,
        }  # fmt: skip


@dataclass(eq=False)
class Pending:
    """A contribution that is not mixed yet."""

    child: str
    round: int
    weights: Vector
    base: Vector
    statistics: Statistics
    origin: Statistics
    """The normalisers that it began from."""
    samples: int
    version: int
    came: float
    examined: bool = False
    """It was evaluated, or nobody asks for that."""
    score: float = 0.0
    """What the evaluation gave."""
    worse_than: int | None = None
    """The version that scored significantly better: it is set aside, unless those of all others are as well."""
