"""A Tally between machines, by torch.distributed's gloo. The replicas find each other at a MeetingPoint: no port opens for that.

Every part goes to every rank and is added up there, in the order of ranks: so replicas on many machines get the same bits as
replicas on one.
"""

from __future__ import annotations

import threading
import time
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
    """A Ray actor: names and bytes that replicas leave for each other. `get` may run in many threads.

    It outlives the replicas: those that come after a death meet anew under the next number, and what was left before is forgotten.
    """

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._meeting = 0
        self._more = threading.Condition()

    def set(self, meeting: int, key: str, value: bytes) -> None:
        """Leave something."""
        with self._more:
            if meeting > self._meeting:
                self._meeting, self._held = meeting, {}
            if meeting == self._meeting:
                self._held[key] = value
            self._more.notify_all()

    def get(self, meeting: int, key: str, timeout: float) -> bytes | None:
        """What was left; None if it was not in time, or if others have met since."""
        with self._more:
            self._more.wait_for(lambda: self._meeting > meeting or self._is_there(meeting, key), timeout)
            return self._held[key] if self._is_there(meeting, key) else None

    def _is_there(self, meeting: int, key: str) -> bool:
        return self._meeting == meeting and key in self._held


class Way(Protocol):
    """How a replica reaches a MeetingPoint."""

    def set(self, meeting: int, key: str, value: bytes) -> None:
        """Leave something there."""

    def get(self, meeting: int, key: str, timeout: float) -> bytes | None:
        """What was left; None if it was not in time."""


class _Store(dist.Store):
    """The meeting point as torch.distributed asks for it."""

    def __init__(self, point: Way, meeting: int) -> None:
        super().__init__()
        self._point, self._meeting = point, meeting

    def set(self, key: str, value: Any) -> None:
        """Leave something."""
        self._point.set(self._meeting, key, value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        """Wait for something."""
        found = self._point.get(self._meeting, key, MEETING)
        if found is None:
            raise TimeoutError(f"no replica left {key} within {MEETING:g} s")
        return found

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Until all are there."""
        for key in keys:
            self.get(key)


class GlooTally(Tally):
    """One rank's. `address` is the machine's own, the only one that it listens on; `meeting`: which one at this point."""

    def __init__(self, point: Way, rank: int, ranks: int, nbytes: int, address: str, meeting: int = 0) -> None:
        self.ranks, self.nbytes, self._rank = ranks, nbytes, rank
        gloo: Any = dist.ProcessGroupGloo  # its types omit most of it
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=address)]
        options._timeout = timedelta(days=10)  # a pause may be long, and a dead replica is seen to by who started it
        self._group = gloo(_Store(point, meeting), rank, ranks, options)
        self._heads = [torch.zeros(2, dtype=torch.int64) for _ in range(ranks)]
        self._parts: list[np.ndarray] = []
        """Of the round that is under way, once all have said what they bring."""
        self._work: Any = None
        """What is under way; a call that was too impatient left it there for the next."""

    def sum(self, rank: int, vector: np.ndarray, timeout: float) -> np.ndarray:
        if vector.dtype.char not in _KINDS or vector.ndim != 1:
            raise ValueError(f"float32 or float64 [n] is summed, not {vector.dtype} {list(vector.shape)}")
        if vector.nbytes > self.nbytes:
            raise ValueError(f"a vector of {vector.nbytes} bytes is too long: there is room for {self.nbytes}")
        deadline = time.monotonic() + timeout
        if not self._parts:
            self._gather(self._heads, torch.tensor([vector.size, ord(vector.dtype.char)]), timeout)
            self._check_heads()
            self._parts = [np.empty_like(vector) for _ in range(self.ranks)]
        left = max(0.0, deadline - time.monotonic())
        self._gather(list(map(torch.from_numpy, self._parts)), torch.from_numpy(np.ascontiguousarray(vector)), left)
        total, *parts = self._parts
        self._parts = []
        for part in parts:
            total += part
        return total

    def _check_heads(self) -> None:
        for other, head in enumerate(self._heads):
            if not torch.equal(head, self._heads[0]):
                raise ValueError(f"rank 0 brought {_described(self._heads[0])}, rank {other} {_described(head)}")

    def _gather(self, into: list[torch.Tensor], mine: torch.Tensor, timeout: float) -> None:
        """Begin, or go on with what was begun; TimeoutError leaves it under way."""
        if self._work is None:
            self._work = self._group.allgather([into], [mine])
        if not _completed(self._work, timeout):
            raise TimeoutError(f"not all {self.ranks} ranks came in {timeout:g} s")
        work, self._work = self._work, None
        try:
            work.wait()
        except RuntimeError as error:
            raise AbandonedError(f"the other replicas of this trainer are gone ({error})") from error

    def abandon(self) -> None:
        """Replicas on many machines go down and come back together: whoever starts them kills those that wait."""

    def renew(self) -> None:
        """New replicas have a new meeting."""


class Meeting(NamedTuple):
    """Where a replica meets those on other machines: a point, by the name of its tally."""

    point: str
    rank: int
    ranks: int
    nbytes: int
    number: int
    """Of all that take place at this point."""


class Invited(NamedTuple):
    """A replica that knows the way to its meeting, and its own address."""

    meeting: Meeting
    way: Way
    address: str

    def join(self) -> Tally:
        """This rank's end, once all are there."""
        _, rank, ranks, nbytes, number = self.meeting
        return GlooTally(self.way, rank, ranks, nbytes, self.address, number)


def _completed(work: Any, timeout: float) -> bool:
    """Well or badly: a wait that is over then says which. Torch takes no time at all for ever."""
    try:
        work.wait(timedelta(seconds=max(timeout, 0.001)))
    except RuntimeError:
        return bool(work.is_completed())
    return True


def _described(head: torch.Tensor) -> str:
    size, kind = head.tolist()
    return f"{size} numbers of {np.dtype(_KINDS[chr(kind)]).name}"
