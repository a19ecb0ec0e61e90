"""Calls to the relays of other hosts: in order, and again until they arrived.

A call that Ray gives up, because a link was cut or an agent started anew, is made once more, and all that followed it after it.
Whoever is called twice notices by the numbers that every message carries.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError

RETRY = 1.0
"""Seconds between two attempts."""


@dataclass
class _Call:
    method: str
    args: tuple[Any, ...]
    ref: Any = None


class _Line:
    """All calls to one host that are not known to have arrived, oldest first."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.calls: deque[_Call] = deque()
        self.again_at: float | None = None

    def send(self, call: _Call) -> None:
        self.calls.append(call)
        if self.again_at is None:
            self._make(call)

    def _make(self, call: _Call) -> None:
        call.ref = getattr(self.handle, call.method).remote(*call.args)

    def step(self) -> None:
        if self.again_at is not None:
            if time.monotonic() < self.again_at:
                return
            self.again_at = None
            for call in self.calls:
                self._make(call)
        while self.calls and self._arrived(self.calls[0]):
            self.calls.popleft()

    def _arrived(self, call: _Call) -> bool:
        if not ray.wait([call.ref], timeout=0)[0]:
            return False
        try:
            ray.get(call.ref)
        except ActorDiedError:  # whoever placed it will name another
            self.again_at = float("inf")
        except RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError):
                raise
            self.again_at = time.monotonic() + RETRY
        return self.again_at is None


class Courier:
    """One per agent; used by one thread. Every call begins with the sender's name: who was cut off and replaced is not obeyed."""

    def __init__(self, sender: str) -> None:
        self._sender = sender
        self._lines: dict[str, _Line] = {}

    def connect(self, hosts: dict[str, Any]) -> None:
        """These are the other hosts, and their actors. What is on its way to a host whose actor is new goes there again."""
        for host, handle in hosts.items():
            line = self._lines.get(host)
            if line is None:
                self._lines[host] = _Line(handle)
            elif line.handle != handle:
                line.handle, line.again_at = handle, 0.0
        for host in self._lines.keys() - hosts.keys():
            del self._lines[host]

    def send(self, host: str, method: str, *args: Any) -> None:
        """Call `method` there, after all calls before it. A host that is gone gets nothing."""
        if host in self._lines:
            self._lines[host].send(_Call(method, (self._sender, *args)))

    def busy(self, host: str) -> bool:
        """Something is still on its way there."""
        return host in self._lines and bool(self._lines[host].calls)

    def step(self) -> bool:
        """See what arrived; whether anything is on its way still."""
        for line in self._lines.values():
            line.step()
        return any(line.calls for line in self._lines.values())

    def put(self, packed: Any) -> Any:
        """One object for many hosts."""
        return ray.put(packed)
