"""Somebody in the middle, who cannot read: delays, flips, cuts, truncates, replays, reorders and drops what passes, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.federation import network as networks
from shoal.federation.call import Call
from shoal.federation.channel import LostError
from shoal.federation.frames import FrameError
from shoal.federation.hub import Came, Joined
from shoal.federation.messages import Contribution, Parcel
from shoal.federation.network import open_channel
from tests.federation.certificates import free_port
from tests.federation.test_network import FINGERPRINT, HEADER, LAYOUT, Site, weights

WAYS = ("pass", "delay", "flip", "cut", "truncate", "replay", "reorder", "drop")
HARMLESS = WAYS[:2]
NAMES = tuple(f"child-{number}" for number in range(8))
"""Children that are tampered with at the same time."""
WAITS = 0.3
"""Seconds that a child waits for an answer."""


class Middle:
    """Passes on what two ends say, until it is told to do something to the next chunk of one of them."""

    def __init__(self, to: int, seed: int) -> None:
        self.port, self._to = free_port(), to
        self._armed: tuple[str, str] | None = None
        self._random = random.Random(seed)

    async def serve(self) -> None:
        self._server = await asyncio.start_server(self._session, "127.0.0.1", self.port)

    async def close(self) -> None:
        self._server.close()
        await asyncio.sleep(0)

    def arm(self, way: str, direction: str) -> None:
        """What to do to the next chunk in that direction."""
        self._armed = (way, direction)

    def disarm(self) -> None:
        self._armed = None

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", self._to)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, out, "up"), self._pass(there, writer, "down"))
        for each in (writer, out):
            each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        while chunk := await reader.read(65536):
            way = "pass"
            if self._armed is not None and self._armed[1] == direction:
                way, self._armed = self._armed[0], None
            for part in await self._changed(chunk, way):
                writer.write(part)
                await writer.drain()
            if way == "truncate":
                raise ConnectionError
        writer.close()

    async def _changed(self, chunk: bytes, way: str) -> list[bytes]:
        at = self._random.randrange(len(chunk))
        match way:
            case "delay":
                await asyncio.sleep(0.05)
            case "flip":
                return [chunk[:at] + bytes([chunk[at] ^ (1 << self._random.randrange(8))]) + chunk[at + 1 :]]
            case "cut":
                return [chunk[:at] + chunk[at + self._random.randrange(1, 50) :]]
            case "truncate":
                return [chunk[:at]]
            case "replay":
                return [chunk, chunk]
            case "reorder":
                at = at or len(chunk) // 2
                return [chunk[at:], chunk[:at]]
            case "drop":
                return []
        return [chunk]


def treatment(number: int) -> tuple[str, str]:
    """What is done to a message, and to the child's or to the parent's answer to it."""
    return WAYS[number % len(WAYS)], ("up", "down")[number // len(WAYS) % 2]


def content(number: int) -> bytes:
    return number.to_bytes(4, "big") * 15


class Tampering:
    """Children that send a message each time they are connected, and hear the answer, with somebody in between."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site, self._network, self._seed = site, site.network(), seed
        self.arrived: Counter[tuple[str, str]] = Counter()
        self.wrong: Counter[tuple[str, str]] = Counter()
        """Arrived, and not as it was sent."""

    def run(self, rounds: int) -> None:
        async def all_() -> None:
            parent, numbers = asyncio.create_task(self._parent()), iter(range(rounds))
            await asyncio.gather(*(self._child(name, numbers) for name in NAMES))
            parent.cancel()

        self._network.run(all_(), 3000.0)

    async def _parent(self) -> None:
        """Welcomes children, and answers what comes, if that was not tampered with."""
        while True:
            for found in self._site.inbox.take():
                if isinstance(found, Joined):
                    self._site.hub.send(found.child, weights())
                if isinstance(found, Came):
                    number = found.header.round
                    way, direction = treatment(number)
                    if direction == "up":
                        self._count(number, as_sent=found.blocks[0] == content(number))
                    if direction == "down" or way in HARMLESS:
                        self._site.hub.send(found.child, weights(number, whole=False, answers=number))
            await asyncio.sleep(0.002)

    async def _child(self, name: str, numbers: Iterator[int]) -> None:
        middle = Middle(self._site.port, len(NAMES) * self._seed + NAMES.index(name))
        await middle.serve()
        identity = self._site.children[name]
        call = Call(self._network, identity, FINGERPRINT, LAYOUT, lambda offer: None)
        for number in numbers:
            channel = await open_channel(f"wss://127.0.0.1:{middle.port}", identity)
            try:
                await call._handshake(channel)
                middle.arm(*treatment(number))
                header = Contribution(**{**HEADER, "round": number})
                await channel.send(Parcel(header, (content(number), bytes(72))))
                answer = await channel.receive(WAITS)
                if treatment(number)[1] == "down":
                    due = weights(number, whole=False, answers=number)
                    self._count(number, as_sent=answer == due)
            except (LostError, FrameError):
                pass
            finally:
                middle.disarm()
                await channel.close()
        await middle.close()

    def _count(self, number: int, *, as_sent: bool) -> None:
        self.arrived[treatment(number)] += 1
        self.wrong[treatment(number)] += not as_sent


def check(site: Site, rounds: int, seed: int = 0) -> None:
    tampering = Tampering(site, seed)
    tampering.run(rounds)
    arrived, each = tampering.arrived, rounds // (2 * len(WAYS))
    print({f"{way}, {direction}": arrived[way, direction] for way in WAYS for direction in ("up", "down")})
    assert not +tampering.wrong
    for direction in ("up", "down"):
        assert arrived["pass", direction] == arrived["delay", direction] == each
        # a whole record that is sent twice arrives once, and then the connection ends; all else ends it at once
        for way in ("flip", "cut", "truncate", "reorder", "drop"):
            assert arrived[way, direction] == 0, (way, direction)
        assert arrived["replay", direction] <= each


@pytest.fixture
def open_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name in ("BURST", "ALL_BURST"):
        monkeypatch.setattr(networks, name, 1e9)
    return Site(tmp_path, *NAMES)


def test_nothing_that_was_tampered_with_is_taken(open_site: Site) -> None:
    try:
        check(open_site, 64)
    finally:
        open_site.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(10))
def test_nor_of_twenty_thousand(open_site: Site, part: int) -> None:
    """27,200 messages in all, of which 20,400 are flipped, cut, truncated, replayed, reordered or dropped, and 3,400 delayed."""
    try:
        check(open_site, 2_720, seed=1 + part)
    finally:
        open_site.close()
