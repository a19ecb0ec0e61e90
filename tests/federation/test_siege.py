"""A parent at work, and many strangers at its door: what it holds of them is bounded, and training goes on."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.federation import network as networks
from shoal.federation.channel import OPENING
from tests.federation.ends import Federation, command

SILENT, SLOW = 200, 40
LASTS = 30.0
"""Seconds."""
MOST = int(networks.ALL_BURST + networks.ALL_PER_SECOND * (OPENING + 4))
"""Strangers at once: those of the first moment, and those who came since the oldest of the others were hung up on."""
COST = 0.3
"""Megabytes of each: TLS in asyncio reads into 256 KiB."""


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path, "anna")
    yield made
    made.close()


def resident(pid: int) -> float:
    """Megabytes of memory."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def held(pid: int) -> int:
    """Connections that a process has open."""
    count = 0
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            count += str(handle.readlink()).startswith("socket:")
    return count


class Stranger:
    """One address; calls again when it is hung up on."""

    def __init__(self, number: int, port: int, says: bytes) -> None:
        self._address, self._port, self._says = f"127.1.{number // 250}.{number % 250 + 1}", port, says
        self._line: socket.socket | None = None

    def look(self) -> None:
        """Call, or say the next letter."""
        try:
            if self._line is None:
                self._line = socket.create_connection(("127.0.0.1", self._port), 1.0, (self._address, 0))
                self._line.setblocking(False)
            if self._says:
                self._line.send(self._says)
            if not self._line.recv(1000):
                self.close()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_strangers_cost_little_and_hold_up_nobody(federation: Federation) -> None:
    """200 who never say a word, and 40 who say a letter of a TLS hello each second, all from addresses of their own."""
    parent, child = federation.parent(), federation.child("anna")
    parent.reaches(5, 120)
    status = json.loads(command(federation.place, "status", str(parent.folder), "--json").stdout)
    (pid,) = [worker["pid"] for worker in status["workers"] if worker["name"] == "parent"]
    before, mine, version = resident(pid), held(pid), parent.version
    strangers = [Stranger(number, federation.port, b"") for number in range(SILENT)]
    strangers += [Stranger(SILENT + number, federation.port, b"\x16") for number in range(SLOW)]
    memory, lines, end = [], [], time.monotonic() + LASTS
    try:
        while time.monotonic() < end:
            for stranger in strangers:
                stranger.look()
            memory.append(resident(pid) - before)
            lines.append(held(pid) - mine)
            time.sleep(1.0)
    finally:
        for stranger in strangers:
            stranger.close()
    print(f"at most {max(memory):.1f} MB and {max(lines)} connections more, {parent.version - version} versions")
    assert max(memory) < MOST * COST
    assert 10 < max(lines) <= MOST
    parent.reaches(version + 5, 10.0)
    assert not parent.said("anna left")
    assert child.process.poll() is None
    time.sleep(OPENING + 2)
    assert held(pid) <= mine + 2, "nothing is left of them"
