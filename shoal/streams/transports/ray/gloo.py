"""A Tally between machines, by torch.distributed's gloo. The replicas find each other at a MeetingPoint: no port opens for that.

Every part goes to every rank and is added up there, in the order of ranks: so replicas on many machines get the same bits as
replicas on one.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import distributed as dist

from shoal.streams.primitives import AbandonedError, Tally

MEETING = 120.0
"""Seconds in which all replicas have to come, the first time."""
_KINDS = {"f": np.float32, "d": np.float64}


class MeetingPoint:
    """A Ray actor: names and bytes that replicas leave for each other. `wait` may run in many threads."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._more = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        """Leave something."""
        with self._more:
            self._held[key] = value
            self._more.notify_all()

    def get(self, key: str, timeout: float) -> bytes | None:
        """What was left; None if it was not in time."""
        with self._more:
            self._more.wait_for(lambda: key in self._held, timeout)
            return self._held.get(key)


class Way(Protocol):
    """How a replica reaches a MeetingPoint."""

    def set(self, key: str, value: bytes) -> None:
        """Leave something there."""

    def get(self, key: str, timeout: float) -> bytes | None:
        """What was left; None if it was not in time."""


class _Store(dist.Store):
    """The meeting point as torch.distributed asks for it."""

    def __init__(self, point: Way) -> None:
        super().__init__()
        self._point = point

    def set(self, key: str, value: Any) -> None:
        """Leave something."""
        self._point.set(key, value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        """Wait for something."""
        found = self._point.get(key, MEETING)
        if found is None:
            raise TimeoutError(f"no replica left {key} within {MEETING:g} s")
        return found

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Until all are there."""
        for key in keys:
            self.get(key)


class GlooTally(Tally):
    """One rank's. `address` is the machine's own, the only one that it listens on."""

    def __init__(self, point: Way, rank: int, ranks: int, nbytes: int, address: str) -> None:
        self.ranks, self.nbytes, self._rank = ranks, nbytes, rank
        gloo: Any = dist.ProcessGroupGloo  # its types omit most of it
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=address)]
        options._timeout = timedelta(days=10)  # a pause may be long, and a dead replica is seen to by who started it
        self._group = gloo(_Store(point), rank, ranks, options)
        self._heads = [torch.zeros(2, dtype=torch.int64) for _ in range(ranks)]

    def sum(self, rank: int, vector: np.ndarray, timeout: float) -> np.ndarray:
        if vector.dtype.char not in _KINDS or vector.ndim != 1:
            raise ValueError(f"float32 or float64 [n] is summed, not {vector.dtype} {list(vector.shape)}")
        if vector.nbytes > self.nbytes:
            raise ValueError(f"a vector of {vector.nbytes} bytes is too long: there is room for {self.nbytes}")
        self._gather(self._heads, torch.tensor([vector.size, ord(vector.dtype.char)]))
        for other, head in enumerate(self._heads):
            if not torch.equal(head, self._heads[0]):
                raise ValueError(f"rank 0 brought {_described(self._heads[0])}, rank {other} {_described(head)}")
        parts = [np.empty_like(vector) for _ in range(self.ranks)]
        self._gather([torch.from_numpy(part) for part in parts], torch.from_numpy(np.ascontiguousarray(vector)))
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total

    def _gather(self, into: list[torch.Tensor], mine: torch.Tensor) -> None:
        try:
            self._group.allgather([into], [mine]).wait()
        except RuntimeError as error:
            raise AbandonedError(f"the other replicas of this trainer are gone ({error})") from error

    def abandon(self) -> None:
        """Replicas on many machines go down and come back together: whoever starts them kills those that wait."""

    def renew(self) -> None:
        """New replicas meet at a new point."""


class Meeting(NamedTuple):
    """Where a replica meets those on other machines: a point, by the name of its tally."""

    point: str
    rank: int
    ranks: int
    nbytes: int


class Invited(NamedTuple):
    """A replica that knows the way to its meeting, and its own address."""

    meeting: Meeting
    way: Way
    address: str

    def join(self) -> Tally:
        """This rank's end, once all are there."""
        _, rank, ranks, nbytes = self.meeting
        return GlooTally(self.way, rank, ranks, nbytes, self.address)


def _described(head: torch.Tensor) -> str:
    size, kind = head.tolist()
    return f"{size} numbers of {np.dtype(_KINDS[chr(kind)]).name}"
