"""Somebody in the middle, who cannot read: delays, flips, cuts, replays, reorders what passes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from pathlib import Path

import pytest

from shoal.federation import network as networks
from shoal.federation.call import Call
from shoal.federation.channel import LostError
from shoal.federation.hub import Came
from shoal.federation.messages import Contribution, Parcel
from shoal.federation.network import open_channel
from tests.federation.certificates import free_port
from tests.federation.test_network import FINGERPRINT, HEADER, LAYOUT, Site, welcomed

WAYS = ("pass", "delay", "flip", "cut", "replay", "reorder", "drop")


class Middle:
    """Passes on what two ends say, until it is told to do something to one chunk from the child."""

    def __init__(self, to: int) -> None:
        self.port, self._to = free_port(), to
        self.way, self.armed, self.done = "pass", False, 0
        self._random = random.Random(5)

    async def serve(self) -> None:
        self._server = await asyncio.start_server(self._session, "127.0.0.1", self.port)

    async def close(self) -> None:
        self._server.close()
        await asyncio.sleep(0)

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", self._to)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, out, tamper=True), self._pass(there, writer, tamper=False))
        for each in (writer, out):
            each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, tamper: bool) -> None:
        while chunk := await reader.read(65536):
            for part in await self._changed(chunk) if tamper and self.armed and self.way != "pass" else [chunk]:
                writer.write(part)
                await writer.drain()
        writer.close()

    async def _changed(self, chunk: bytes) -> list[bytes]:
        self.armed, self.done = False, self.done + 1
        at = self._random.randrange(len(chunk))
        if self.way == "delay":
            await asyncio.sleep(0.05)
            return [chunk]
        if self.way == "flip":
            return [chunk[:at] + bytes([chunk[at] ^ (1 << self._random.randrange(8))]) + chunk[at + 1 :]]
        if self.way == "cut":
            return [chunk[:at] + chunk[at + self._random.randrange(1, 50) :]]
        if self.way == "replay":
            return [chunk, chunk]
        if self.way == "reorder":
            return [chunk[at:], chunk[:at]] if at else [chunk[len(chunk) // 2 :], chunk[: len(chunk) // 2]]
        return []


def tampered(site: Site, rounds: int) -> tuple[Counter[str], Counter[str]]:
    """What arrived, and what arrived as it was not sent, by the way it was treated."""
    network = site.network()
    middle = Middle(site.port)
    network.run(middle.serve(), 5.0)
    arrived: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    call = Call(network, site.children["anna"], FINGERPRINT, LAYOUT, lambda offer: None)

    async def one(number: int) -> None:
        channel = await open_channel(f"wss://127.0.0.1:{middle.port}", site.children["anna"])
        try:
            await welcomed(site, asyncio.create_task(call._handshake(channel)))
            middle.armed = True
            header = Contribution(**{**HEADER, "round": number})
            await channel.send(Parcel(header, (number.to_bytes(4, "big") * 15, bytes(72))))
            await asyncio.sleep(0.08)
        except LostError:
            pass
        finally:
            middle.armed = False
            await channel.close()

    for number in range(rounds):
        middle.way = WAYS[number % len(WAYS)]
        network.run(one(number), 30.0)
        for event in site.inbox.take(0.02):
            if isinstance(event, Came):
                arrived[WAYS[event.header.round % len(WAYS)]] += 1
                wrong[middle.way] += event.blocks[0] != event.header.round.to_bytes(4, "big") * 15
    network.run(middle.close(), 5.0)
    return arrived, wrong


def check(site: Site, rounds: int) -> None:
    arrived, wrong = tampered(site, rounds)
    print(dict(arrived))
    each = rounds // len(WAYS)
    assert arrived["pass"] == arrived["delay"] == each
    assert not +wrong
    # a whole record that is sent twice arrives once, and then the connection ends; all else ends it at once
    assert arrived["flip"] == arrived["cut"] == arrived["reorder"] == arrived["drop"] == 0
    assert arrived["replay"] <= each


@pytest.fixture
def open_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name in ("BURST", "ALL_BURST"):
        monkeypatch.setattr(networks, name, 1e9)
    return Site(tmp_path, "anna")


def test_nothing_that_was_tampered_with_is_taken(open_site: Site) -> None:
    try:
        check(open_site, 35)
    finally:
        open_site.close()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_nor_of_thousands(open_site: Site) -> None:
    try:
        check(open_site, 2800)
    finally:
        open_site.close()
