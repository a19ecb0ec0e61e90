"""Messages to the agents of other machines: in order, together as far as they are small, and again until they arrived.

A call that Ray gives up, because a link was cut or an agent started anew, is made once more, and all that followed it after it.
Whoever is called twice notices by the numbers that every message carries.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import ray
from ray.exceptions import ActorDiedError, RayError

from shoal.streams.transports.ray.messages import Message, Version

RETRY = 1.0
"""Seconds between two attempts."""
WHOLE = 1_000_000
"""Bytes from which calls go at once. A call costs Ray a millisecond at either end, and a machine has a ring per actor."""
SMALL = 1_000
"""Bytes up to which a version goes inside a message, as an object of its own only from there on."""
AHEAD = 4
"""Calls on their way beyond which small ones wait for company: so a machine that is slow to answer is called less often."""


@dataclass
class _Call:
    make: Callable[[Any], Any]
    """At a machine's actor; gives the reference to its answer."""
    ref: Any = None


class _Line:
    """All calls to one machine that are not known to have arrived, oldest first."""

    def __init__(self, sender: str, handle: Any) -> None:
        self._sender, self.handle = sender, handle
        self.calls: deque[_Call] = deque()
        self.again_at: float | None = None
        self._together: list[Message] = []
        self._nbytes = 0

    def send(self, message: Message) -> None:
        if isinstance(message, Version) and isinstance(message.packed, ray.ObjectRef):
            self.flush()
            self._add(_Call(partial(_call_version, self._sender, message)))
            return
        self._together.append(message)
        self._nbytes += _size(message)
        if self._nbytes >= WHOLE:
            self.flush()

    def flush(self) -> None:
        """All that waits goes as one call."""
        if self._together:
            self._add(_Call(partial(_call, self._sender, self._together)))
            self._together, self._nbytes = [], 0

    @property
    def busy(self) -> bool:
        return bool(self.calls or self._together)

    def _add(self, call: _Call) -> None:
        self.calls.append(call)
        if self.again_at is None:
            self._make(call)

    def _make(self, call: _Call) -> None:
        call.ref = call.make(self.handle)

    def step(self) -> None:
        if self.again_at is not None:
            if time.monotonic() < self.again_at:
                return
            self.again_at = None
            for call in self.calls:
                self._make(call)
        while self.calls and self._arrived(self.calls[0]):
            self.calls.popleft()
        if len(self.calls) < AHEAD:
            self.flush()

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


def _call(sender: str, messages: list[Message], handle: Any) -> Any:
    """See Peer.receive."""
    return handle.receive.remote(sender, messages)


def _call_version(sender: str, version: Version, handle: Any) -> Any:
    """See Peer.receive_version."""
    return handle.receive_version.remote(sender, version.box, version.number, version.packed, version.keep)


def _size(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(_size(part) for part in value)
    return getattr(value, "nbytes", 0) or (len(value) if isinstance(value, bytes) else 0)


class Courier:
    """One per agent; used by one thread. Every call begins with the sender's name: who was cut off and replaced is not obeyed."""

    def __init__(self, sender: str) -> None:
        self._sender = sender
        self._lines: dict[str, _Line] = {}

    def connect(self, machines: dict[str, Any]) -> None:
        """These are the other machines, and their actors. What is on its way to a machine whose actor is new goes there again."""
        for machine, handle in machines.items():
            line = self._lines.get(machine)
            if line is None:
                self._lines[machine] = _Line(self._sender, handle)
            elif line.handle != handle:
                line.handle, line.again_at = handle, 0.0
        for machine in self._lines.keys() - machines.keys():
            del self._lines[machine]

    def send(self, node: str, message: Message) -> None:
        """Tell it there, after all that was told before, at the next step at the latest. A machine that is gone gets nothing."""
        if node in self._lines:
            self._lines[node].send(message)

    def busy(self, machine: str) -> bool:
        """Something is still on its way there."""
        return machine in self._lines and self._lines[machine].busy

    def step(self) -> bool:
        """Send what waits, see what arrived; whether anything is on its way still."""
        for line in self._lines.values():
            line.step()
        return any(line.calls for line in self._lines.values())

    def put(self, packed: np.ndarray) -> Any:
        """One object for many machines; what is small goes to each as it is."""
        return packed if packed.nbytes <= SMALL else ray.put(packed)
