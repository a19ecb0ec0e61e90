"""Parent and child over real TLS on loopback: who gets in, who does not, and what ends a connection."""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.api.federation import FederationConfig
from shoal.base.errors import InputError, ShoalError
from shoal.federation import channel as channels
from shoal.federation import network as networks
from shoal.federation.call import Answered, Call, Lost, Over, Welcomed, look
from shoal.federation.channel import Channel, LostError
from shoal.federation.credentials import Credentials
from shoal.federation.frames import Frame, encode
from shoal.federation.hub import Came, Hub, Joined, Knocked, Left, Refused, kind_of
from shoal.federation.layout import Layout, make_offer, mismatch
from shoal.federation.messages import Contribution, Hello, Parcel, Weights
from shoal.federation.network import NetworkThread, Strangers, check_uri, listening, open_channel, parse_address
from tests.federation.certificates import authority, expired, free_port

LAYOUT = Layout((("0.weight", (3, 4)), ("0.bias", (3,))), [4])
FINGERPRINT = "a" * 64
HEADER = {"round": 0, "base": 0, "samples": 5, "updates": 1, "seconds": 0.5, "error": 0.0, "score": 1.5, "episodes": 2}


def weights(version: int = 0, *, whole: bool = True, answers: int = -1) -> Parcel:
    header = Weights(version=version, whole=whole, answers=answers, verdict="", steps=0)
    return Parcel(header, (np.full(15, version, "<f4").tobytes(), bytes(72)))


class Site:
    """A parent's hub at a port of its own, and children that call it."""

    def __init__(self, folder: Path, *children: str) -> None:
        self.parent, self.children = authority(folder, *children)
        self.port = free_port()
        self.uri = f"wss://127.0.0.1:{self.port}"
        self.networks: list[NetworkThread] = []
        self.inbox = self.network()
        self.unwanted: dict[str, str] = {}
        offer = make_offer("toy", FINGERPRINT, LAYOUT, FederationConfig())
        self.hub = Hub(self.inbox, self.parent, offer, LAYOUT, self.unwanted.get)
        self.hub.listen(listening(f"127.0.0.1:{self.port}"))

    def network(self) -> NetworkThread:
        self.networks.append(NetworkThread("test"))
        return self.networks[-1]

    def call(self, credentials: Credentials, fingerprint: str = FINGERPRINT) -> tuple[Call, NetworkThread]:
        network = self.network()
        call = Call(network, credentials, fingerprint, LAYOUT, lambda offer: mismatch(offer, fingerprint, LAYOUT))
        call.to(self.uri)
        return call, network

    def close(self) -> None:
        for network in self.networks:
            network.stop()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, "anna", "bert")
    yield made
    made.close()


def event(network: NetworkThread, kind: type[Any], timeout: float = 10.0) -> Any:
    """The next of that kind; others are passed over."""
    deadline = time.monotonic() + timeout
    seen = []
    while time.monotonic() < deadline:
        for found in network.take(0.05):
            if isinstance(found, kind):
                return found
            seen.append(found)
    raise AssertionError(f"no {kind.__name__}, but {seen}")


def test_a_round(site: Site) -> None:
    call, inbox = site.call(site.children["anna"])
    joined = event(site.inbox, Joined)
    assert (joined.child, joined.where) == ("anna", "this machine")
    site.hub.send("anna", weights(3))
    assert event(inbox, Welcomed).header.version == 3
    call.send(Parcel(Contribution(**HEADER), (bytes(60), bytes(72))))
    came = event(site.inbox, Came)
    assert (came.child, came.header.samples) == ("anna", 5)
    assert came.nbytes > 132
    site.hub.send("anna", weights(4, whole=False, answers=0))
    assert event(inbox, Answered).header.answers == 0


def test_a_child_only_looks(site: Site) -> None:
    assert look(site.uri, None, site.children["anna"]).recipe == "toy"


def test_a_child_that_is_called_looks_too(site: Site) -> None:
    port = free_port()
    site.hub.call([f"wss://127.0.0.1:{port}"])
    assert look(None, f"127.0.0.1:{port}", site.children["anna"]).recipe == "toy"


def test_another_recipe_is_refused_by_name(site: Site) -> None:
    _, inbox = site.call(site.children["anna"], "b" * 64)
    over = event(inbox, Over)
    assert "use the same recipe" in over.reason
    assert "use the same recipe" in event(site.inbox, Refused).reason


def test_the_parent_ends_it(site: Site) -> None:
    _, inbox = site.call(site.children["anna"])
    event(site.inbox, Joined)
    site.hub.send("anna", weights())
    event(inbox, Welcomed)
    site.hub.close("stop.steps = 9 reached", over=True)
    assert event(inbox, Over).done


def test_a_child_that_had_to_go_stays_out(site: Site) -> None:
    site.unwanted["anna"] = "it had to go"
    _, inbox = site.call(site.children["anna"])
    assert event(inbox, Over).reason == "it had to go"


def test_revocation_ends_a_live_connection(site: Site) -> None:
    _, inbox = site.call(site.children["anna"])
    event(site.inbox, Joined)
    site.hub.send("anna", weights())
    event(inbox, Welcomed)
    began = time.monotonic()
    site.parent.revoke("anna")
    assert "revoked" in event(inbox, Over).reason
    assert "revoked" in event(site.inbox, Left).reason
    assert time.monotonic() - began < 5
    _, again = site.call(site.children["anna"])
    assert event(again, Lost)
    assert "not on the list" in event(site.inbox, Refused).reason


def test_the_last_connection_of_a_child_counts(site: Site) -> None:
    """One that is half open must not keep the child from coming back."""
    site.call(site.children["anna"])
    first = event(site.inbox, Joined)
    site.call(site.children["anna"])
    assert event(site.inbox, Left).number == first.number
    assert event(site.inbox, Joined).number > first.number


def test_the_parent_may_call(site: Site, tmp_path: Path) -> None:
    port, network = free_port(), site.network()
    call = Call(network, site.children["bert"], FINGERPRINT, LAYOUT, lambda offer: mismatch(offer, FINGERPRINT, LAYOUT))
    call.listen(listening(f"127.0.0.1:{port}"))
    site.hub.call([f"wss://localhost:{port}"])
    assert event(site.inbox, Joined).child == "bert"
    site.hub.send("bert", weights(7))
    assert event(network, Welcomed).header.version == 7


# ---------------------------------------------------------------- certificates


def refused_before_anything(site: Site, credentials: Credentials) -> str:
    """Calls, says hello, and must not hear a thing of the recipe."""

    async def attempt() -> str:
        try:
            channel = await open_channel(site.uri, credentials)
            await channel.send(Parcel(Hello(protocols=[1], session="0" * 32, encodings=["fp32"], looks=True)))
            got = await channel.receive(5.0)
        except LostError as error:
            return str(error)
        raise AssertionError(f"the parent said {got}")

    return str(site.network().run(attempt(), 20.0))


def test_certificates_of_another_authority_are_refused(site: Site, tmp_path: Path) -> None:
    _, others = authority(tmp_path / "elsewhere", "anna")
    other = others["anna"]
    assert "certificate" in refused_before_anything(site, other)  # the child itself does not know this parent
    (other.folder / "ca.pem").write_bytes((site.parent.folder / "ca.pem").read_bytes())
    refused_before_anything(site, other)
    assert not [found for found in site.inbox.take(0.3) if isinstance(found, Joined)]


def test_expired_and_revoked_ones_are(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused_before_anything(site, expired(tmp_path, site.parent, monkeypatch))
    site.parent.revoke("anna")
    time.sleep(2.5)  # looked at every second
    refused_before_anything(site, site.children["anna"])
    assert not [found for found in site.inbox.take(0.3) if isinstance(found, Joined)]


def test_who_shows_none_hears_nothing(site: Site) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=str(site.parent.folder / "ca.pem"))

    def say() -> None:
        raw = socket.create_connection(("127.0.0.1", site.port), 5)
        with raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
            wrapped.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")  # TLS 1.3 tells at the first read
            if not wrapped.recv(100):
                raise ConnectionError

    with pytest.raises((ssl.SSLError, ConnectionError)):
        say()


def test_strangers_are_told_of_by_number(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who showed no certificate is counted, and nobody's address is told."""
    monkeypatch.setattr(networks, "NO_CERTIFICATE", 0.5)
    test_who_shows_none_hears_nothing(site)
    assert "1 connections without a good certificate, 0 closed unread" in event(site.inbox, Knocked).said
    test_a_round(site)
    assert not [found for found in site.inbox.take(1.5) if isinstance(found, Knocked)], "who joins is no stranger"


def test_a_flood_of_strangers_is_told_of_now_and_then() -> None:
    now = [0.0]
    strangers = Strangers(lambda: now[0])
    told = 0
    for number in range(1000):
        strangers.knocked(("192.0.2.1", number))
        strangers.too_many()
        now[0] += 30
        told += strangers.news() != ""
    assert 8 <= told <= 12


def test_a_child_takes_nobody_else_for_its_parent(site: Site) -> None:
    """Another child at the right address, with a certificate of the same authority for it."""
    port, network = free_port(), site.network()
    posing = Call(network, site.children["bert"], FINGERPRINT, LAYOUT, lambda offer: None)
    posing.listen(listening(f"127.0.0.1:{port}"))
    victim = site.network()
    call = Call(victim, site.children["anna"], FINGERPRINT, LAYOUT, lambda offer: None)
    call.to(f"wss://127.0.0.1:{port}")
    assert "not that of the parent" in event(victim, Lost).reason


def test_a_name_that_the_certificate_does_not_hold_is_refused(tmp_path: Path) -> None:
    parent = Credentials(tmp_path / "credentials")
    parent.init(["parent.example"])
    child = Credentials(parent.issue("anna"))
    network = NetworkThread("test")
    inbox = NetworkThread("test")
    port = free_port()
    hub = Hub(inbox, parent, make_offer("toy", FINGERPRINT, LAYOUT, FederationConfig()), LAYOUT, lambda _: None)
    hub.listen(listening(f"127.0.0.1:{port}"))
    try:
        with pytest.raises(LostError, match="certificate is not good"):
            network.run(open_channel(f"wss://127.0.0.1:{port}", child), 10)
    finally:
        network.stop()
        inbox.stop()


# ---------------------------------------------------------------- what breaks the protocol


def joined_channel(site: Site, network: NetworkThread) -> Channel:
    """A child's end, after the handshake, in the hands of a test."""
    holder: list[Channel] = []

    async def begin() -> None:
        channel = await open_channel(site.uri, site.children["anna"])
        call = Call(network, site.children["anna"], FINGERPRINT, LAYOUT, lambda offer: None)
        handshake = asyncio.create_task(call._handshake(channel))
        await welcomed(site, handshake)
        holder.append(channel)

    network.run(begin(), 20.0)
    return holder[0]


async def welcomed(site: Site, handshake: asyncio.Task[Any]) -> None:
    """Send weights as soon as the child has joined, and see the handshake through."""
    while not handshake.done():
        for found in site.inbox.take():
            if isinstance(found, Joined):
                site.hub.send(found.child, weights())
        await asyncio.sleep(0.01)
    await handshake


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("replay", "replayed"), ("text", "text"), ("length", "bytes, and"), ("kind", "is due"), ("garbage", "no message"),
        ("twice", "second contribution"), ("nan", "is wrong"), ("large", "longer than agreed"),
    ],
)  # fmt: skip
def test_a_broken_message_ends_the_connection(site: Site, what: str, said: str) -> None:
    network = site.network()
    channel = joined_channel(site, network)
    good = encode(Frame("contribution", HEADER, (bytes(60), bytes(72))), 2)
    number = 2
    frames: dict[str, list[Any]] = {
        "replay": [encode(Frame("contribution", HEADER, (bytes(60), bytes(72))), 0)],
        "text": ["hello"],
        "length": [encode(Frame("contribution", HEADER, (bytes(61), bytes(72))), number)],
        "kind": [encode(Frame("accept", {"fingerprint": FINGERPRINT, "layout": LAYOUT.digest}), number)],
        "garbage": [random.Random(1).randbytes(500)],
        "twice": [good, encode(Frame("contribution", {**HEADER, "round": 1}, (bytes(60), bytes(72))), 3)],
        "nan": [encode(Frame("contribution", {**HEADER, "seconds": -1.0}, (bytes(60), bytes(72))), number)],
        "large": [bytes(1 << 20)],
    }

    async def send() -> None:
        for frame in frames[what]:
            await channel._connection.send(frame)

    network.run(send(), 10.0)
    left = event(site.inbox, Left)
    assert said in left.reason
    assert left.fault


@pytest.fixture
def open_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """One that does not mind how often it is called."""
    for name in ("BURST", "ALL_BURST"):
        monkeypatch.setattr(networks, name, 1e9)
    made = Site(tmp_path, "anna", "bert")
    yield made
    made.close()


def fuzz(site: Site, count: int, seed: int = 3) -> None:
    """As the first message of a connection each: whatever comes, the hub goes on, and nobody joins."""
    draw, network = random.Random(seed), site.network()
    hello = encode(Frame("hello", {"protocols": [1], "session": "0" * 32, "encodings": ["fp32"], "looks": False}), 0)
    ends: list[str] = []

    async def one() -> None:
        channel = await open_channel(site.uri, site.children["anna"])
        broken = bytearray(hello)
        for _ in range(draw.randrange(1, 6)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        if draw.random() < 0.3:
            broken = broken[: draw.randrange(len(broken))]
        await channel._connection.send(bytes(broken))
        try:
            channel.allow(1 << 20)
            ends.append((await channel.receive(30.0)).header.kind)
        except LostError:
            ends.append("closed")
        await channel.close()

    async def all_() -> None:
        for _ in range(count // 10):
            await asyncio.gather(*(one() for _ in range(10)))

    network.run(all_(), 1000.0)
    assert len(ends) == count
    assert set(ends) <= {"refuse", "closed", "offer"}, "some changes leave a hello that is as good"
    assert ends.count("offer") < count / 4
    events = list(site.inbox.take(0.5))
    assert {type(found) for found in events} == {Refused}
    test_a_round(site)


def test_fuzzed_handshakes_end_in_a_clean_close(open_site: Site) -> None:
    fuzz(open_site, 200)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_fuzzed_handshakes_do(open_site: Site, part: int) -> None:
    """2,500 in each part."""
    fuzz(open_site, 2_500, seed=100 + part)


def test_idle_connections_are_few(site: Site) -> None:
    """Of 200 that never say a word most are closed unread, and memory stays what it was."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    idle = []
    for _ in range(200):
        sock = socket.create_connection(("127.0.0.1", site.port), 5)
        sock.settimeout(0.05)
        idle.append(sock)
    time.sleep(0.5)
    open_ = 0
    for sock in idle:
        try:
            open_ += sock.recv(1) != b""
        except TimeoutError:
            open_ += 1
        except OSError:
            pass
    assert open_ <= networks.BURST + 2
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 60, f"{grown:.0f} MB"
    for sock in idle:
        sock.close()


def test_who_says_a_letter_at_a_time_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before TLS is done, and after it, with a certificate that is good."""
    for name in ("open_timeout", "ssl_handshake_timeout"):
        monkeypatch.setitem(channels.OPTIONS, name, 1.0)
    site = Site(tmp_path, "anna")
    try:
        for secured in (False, True):
            sock: Any = socket.create_connection(("127.0.0.1", site.port), 5)
            if secured:
                sock = site.children["anna"].context(server=False).wrap_socket(sock, server_hostname="127.0.0.1")
            sock.settimeout(0.2)
            began, closed = time.monotonic(), False
            with sock:
                while not closed and time.monotonic() - began < 10:
                    try:
                        sock.sendall(b"G" if secured else b"\x16")
                        closed = sock.recv(1000) == b""
                    except TimeoutError:
                        continue
                    except OSError:
                        closed = True
            assert closed
            assert time.monotonic() - began < 6
        test_a_round(site)
    finally:
        site.close()


def test_signs_of_life_come_often_enough() -> None:
    assert channels.PING + channels.PONG <= 25, "half-open connections are seen within 30 s"


# ---------------------------------------------------------------- addresses


def test_addresses() -> None:
    assert parse_address("[::1]:80") == ("::1", 80)
    for wrong in ("8430", "x:y", ":", "a:70000"):
        with pytest.raises(InputError, match="HOST:PORT"):
            parse_address(wrong)
    check_uri("wss://parent.example:8430", "--parent")
    for wrong in ("ws://x:1", "wss://x", "wss://u@x:1", "wss://x:1/path", "x:1"):
        with pytest.raises(InputError, match="wss://HOST:PORT"):
            check_uri(wrong, "--parent")
    assert [kind_of(one) for one in ("127.0.0.1", "10.1.2.3", "8.8.8.8", "x")] == [
        "this machine", "private", "internet", "unknown"
    ]  # fmt: skip


def test_nobody_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.federation import call

    monkeypatch.setattr(call, "LOOKING", 1.0)
    _, children = authority(tmp_path, "anna")
    with pytest.raises(ShoalError, match="shows no recipe"):
        look(f"wss://127.0.0.1:{free_port()}", None, children["anna"])
