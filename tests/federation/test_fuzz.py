"""Children with good certificates that break the protocol after the handshake, in every way: each time a clean close."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.federation import network as networks
from shoal.federation.call import Call
from shoal.federation.channel import LostError
from shoal.federation.frames import KINDS, Frame, encode
from shoal.federation.hub import Came, Joined, Left
from shoal.federation.network import open_channel
from tests.federation import test_network
from tests.federation.test_network import FINGERPRINT, HEADER, LAYOUT, Site, weights

NAMES = ("anna", *(f"child-{number}" for number in range(7)))
DUE = 2
"""The number of a child's first message after the handshake."""
BLOCKS = (bytes(60), bytes(72))
ODD: list[Any] = [None, -1, 1.5, "x", True, [], {}, 2**60, 1e31, "x" * 5000]
PLAIN: dict[str, dict[str, Any]] = {
    "hello": {"protocols": [1], "session": "0" * 32, "encodings": ["fp32"], "looks": False},
    "accept": {"fingerprint": FINGERPRINT, "layout": LAYOUT.digest},
    "weights": {"version": 3, "whole": True, "answers": -1, "verdict": "", "steps": 7},
}


def changed(draw: random.Random, whole: bytes) -> bytes:
    """Bytes that are others, missing, or too many."""
    broken = bytearray(whole)
    while bytes(broken) == whole:
        match draw.randrange(4):
            case 0:
                for _ in range(draw.randrange(1, 6)):
                    broken[draw.randrange(len(broken))] = draw.randrange(256)
            case 1:
                del broken[draw.randrange(len(broken)) :]
            case 2:
                broken += draw.randbytes(draw.randrange(1, 100))
            case _:
                broken = bytearray(draw.randbytes(draw.randrange(1, 500)))
    return bytes(broken)


def wrong_header(draw: random.Random) -> bytes:
    """A field that is missing, unknown or not what it should be, under a SHA-256 that is right."""
    header = dict(HEADER)
    match draw.randrange(3):
        case 0:
            del header[draw.choice(list(header))]
        case 1:
            header[draw.choice(["more", "", "_pickle", "round "])] = draw.choice(ODD)
        case _:
            name = draw.choice([name for name in header if name != "score"])
            header[name] = draw.choice([odd for odd in ODD if odd != 1.5 or name not in ("seconds", "error")])
    return encode(Frame("contribution", header, BLOCKS), DUE)


def broken(draw: random.Random) -> bytes | str:
    """A message that nobody may take."""
    good = encode(Frame("contribution", HEADER, BLOCKS), DUE)
    match draw.randrange(7):
        case 0 | 1:
            return changed(draw, good)
        case 2:
            return encode(Frame("contribution", HEADER, BLOCKS), draw.choice([0, 1, 3, 2**63]))
        case 3:
            return wrong_header(draw)
        case 4:
            kind = draw.choice(list(PLAIN))
            return encode(Frame(kind, PLAIN[kind], BLOCKS if kind == "weights" else ()), DUE)
        case 5:
            sizes = draw.choice([(59, 72), (61, 72), (60, 71), (0, 0), (60,), (60, 72, 1), ()])
            return encode(Frame(draw.choice(KINDS), HEADER, tuple(map(bytes, sizes))), DUE)
        case _:
            return draw.choice(["text", "{}", bytes(20_000)])


class Fuzzing:
    """Some children at a time, each connection with one message."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site, self._network, self._draw = site, site.network(), random.Random(seed)
        self.ends: Counter[str] = Counter()
        """How connections ended, as the child saw it."""
        self.faults = self.taken = 0

    def run(self, count: int) -> None:
        async def all_() -> None:
            parent, numbers = asyncio.create_task(self._parent()), iter(range(count))
            await asyncio.gather(*(self._child(name, numbers) for name in NAMES))
            await asyncio.sleep(0.5)
            parent.cancel()

        self._network.run(all_(), 3000.0)

    async def _parent(self) -> None:
        while True:
            for found in self._site.inbox.take():
                if isinstance(found, Joined):
                    self._site.hub.send(found.child, weights())
                self.faults += isinstance(found, Left) and found.fault
                self.taken += isinstance(found, Came)
            await asyncio.sleep(0.002)

    async def _child(self, name: str, numbers: Iterator[int]) -> None:
        identity = self._site.children[name]
        call = Call(self._network, identity, FINGERPRINT, LAYOUT, lambda offer: None)
        for _ in numbers:
            channel = await open_channel(self._site.uri, identity)
            await call._handshake(channel)
            await channel._connection.send(broken(self._draw))
            try:
                self.ends[f"heard {(await channel.receive(30.0)).header.kind}"] += 1
            except LostError as error:
                self.ends[re.sub(r"\D*(\d+)?.*", r"\1", str(error)) or str(error)] += 1
            await channel.close()


@pytest.fixture
def open_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """One that does not mind how often it is called."""
    for name in ("BURST", "ALL_BURST"):
        monkeypatch.setattr(networks, name, 1e9)
    made = Site(tmp_path, *NAMES)
    yield made
    made.close()


def check(site: Site, count: int, seed: int = 7) -> None:
    fuzzing = Fuzzing(site, seed)
    fuzzing.run(count)
    print(dict(fuzzing.ends))
    assert fuzzing.ends.total() == count
    assert set(fuzzing.ends) <= {"1002", "1009"}, "closed with the code for what breaks the protocol, or is too long"
    assert (fuzzing.faults, fuzzing.taken) == (count, 0)
    test_network.test_a_round(site)


def test_fuzzed_messages_end_in_a_clean_close(open_site: Site) -> None:
    check(open_site, 100)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_fuzzed_messages_do(open_site: Site, part: int) -> None:
    """2,500 in each part."""
    check(open_site, 2_500, seed=100 + part)
