"""A cable of so many bits per second and so much delay, where the kernel has no netem: a network card at either end, and frames
that wait their time in between. More than half a second of them is more than it holds: the others are dropped.

    python slow_cable.py HOST_PID SWITCH_PID PORT BITS_PER_SECOND SECONDS_EACH_WAY

Says `ready` when both cards are there: `eth0` in the host's network, PORT in the switch's.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

_SET_INTERFACE, _TAP, _NO_INFO, _NETWORK = 0x400454CA, 0x0002, 0x1000, 0x40000000
_FRAME = 2048
_HOLDS = 0.5


def card(pid: int, name: str) -> int:
    """A network card in the network of that process; what the kernel sends by it is read here."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net") as space:
        if libc.setns(space.fileno(), _NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
    made = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(made, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _TAP | _NO_INFO))
    return made


class Way:
    """One direction: frames leave one behind the other, and arrive a while later."""

    def __init__(self, source: int, target: int, bits: float, delay: float) -> None:
        self.source, self._target, self._bits, self._delay = source, target, bits, delay
        self._free = 0.0
        self._waiting: deque[tuple[float, bytes]] = deque()

    @property
    def due(self) -> float:
        """When the next frame arrives."""
        return self._waiting[0][0] if self._waiting else float("inf")

    def take(self, now: float) -> None:
        """A frame wants to go."""
        try:
            frame = os.read(self.source, _FRAME)
        except OSError:  # the card is down
            return
        begins = max(now, self._free)
        if begins - now > _HOLDS:
            return
        self._free = begins + 8 * len(frame) / self._bits
        self._waiting.append((self._free + self._delay, frame))

    def give(self, now: float) -> None:
        """Those whose time has come arrive."""
        while self.due <= now:
            try:
                os.write(self._target, self._waiting.popleft()[1])
            except OSError:  # nobody is there
                continue


def main(host: int, switch: int, port: str, bits: float, delay: float) -> None:
    ends = [card(host, "eth0"), card(switch, port)]
    ways = [Way(*ends, bits, delay), Way(*reversed(ends), bits, delay)]
    print("ready", flush=True)
    while True:
        wait = min(way.due for way in ways) - time.monotonic()
        ready, _, _ = select.select(ends, [], [], min(max(wait, 0.0), 1.0))
        now = time.monotonic()
        for way in ways:
            if way.source in ready:
                way.take(now)
            way.give(now)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), float(sys.argv[5]))
