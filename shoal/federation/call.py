"""The child's side of the network: it calls its parent again and again, or waits to be called. In the network thread."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass

from shoal.base.errors import InputError, ShoalError
from shoal.federation.channel import Channel, LostError
from shoal.federation.credentials import Credentials
from shoal.federation.frames import MAX_HEADER, PROTOCOL, FrameError, size_of
from shoal.federation.layout import Layout
from shoal.federation.messages import (
    Accept,
    Bye,
    Hello,
    Offer,
    Parcel,
    Refuse,
    RefusedError,
    Weights,
    expect,
)
from shoal.federation.network import (
    GuardedSocket,
    NetworkThread,
    StopCallingError,
    keep_calling,
    listening,
    serve_channels,
)

ENCODINGS = ["fp32", "fp16", "int8", "top_k"]
LOOKING = 60.0
"""Seconds in which a parent that is called has to show its offer."""
LISTENING = 600.0
"""The same, of one that calls."""


@dataclass(frozen=True)
class Welcomed:
    """Connected, or connected again; these are the weights."""

    offer: Offer
    header: Weights
    blocks: tuple[bytes, ...]


@dataclass(frozen=True)
class Answered:
    """What has come of a round."""

    header: Weights
    blocks: tuple[bytes, ...]


@dataclass(frozen=True)
class Lost:
    """The connection is; another attempt follows."""

    reason: str


@dataclass(frozen=True)
class Over:
    """No other attempt follows."""

    reason: str
    done: bool
    """The parent's run has ended; otherwise something is wrong."""


def check_parent(channel: Channel, credentials: Credentials) -> None:
    """It is the parent at the other end, not another child."""
    if channel.fingerprint not in credentials.allowed():
        raise LostError("its certificate is not that of the parent")


class Call:
    """One child's. `check`: why an offer cannot be taken."""

    def __init__(
        self, network: NetworkThread, credentials: Credentials, fingerprint: str, layout: Layout,
        check: Callable[[Offer], str | None],
    ) -> None:  # fmt: skip
        self._network, self._credentials, self._check = network, credentials, check
        self._fingerprint, self._layout = fingerprint, layout
        self._session = secrets.token_hex(16)
        self._outbox: asyncio.Queue[Parcel] | None = None
        self._over = False

    def to(self, uri: str) -> None:
        """Call the parent there."""
        self._network.start(keep_calling(uri, self._credentials, self._take_part, self._lost))

    def listen(self, sock: GuardedSocket) -> None:
        """Wait for the parent to call."""

        async def one(channel: Channel) -> None:
            try:
                await self._take_part(channel)
            except LostError as error:
                self._lost(str(error))
            except StopCallingError:
                return

        self._network.start(serve_channels(sock, self._credentials, one))

    def send(self, parcel: Parcel) -> None:
        """If there is a connection; otherwise it is not sent."""
        self._network.loop.call_soon_threadsafe(self._put, parcel)

    def _put(self, parcel: Parcel) -> None:
        if self._outbox is not None:
            self._outbox.put_nowait(parcel)

    def close(self, reason: str) -> None:
        """Say goodbye, if there is time."""
        self.send(Parcel(Bye(reason=reason[:200], over=False)))

        async def sent() -> None:
            while self._outbox is not None and not self._outbox.empty():
                await asyncio.sleep(0.02)

        with contextlib.suppress(Exception):
            self._network.run(sent(), 1.0)

    def _lost(self, reason: str) -> None:
        if not self._over:
            self._network.put(Lost(reason))

    async def _take_part(self, channel: Channel) -> None:
        check_parent(channel, self._credentials)
        try:
            offer, first = await self._handshake(channel)
            header = expect(first, Weights)
        except RefusedError as error:
            if error.over:
                self._end(error.reason, done=False)
            raise LostError(error.reason) from None
        except FrameError as error:
            raise LostError(f"the parent said what cannot be: {error}") from None
        self._check_blocks(header, first, offer)
        self._network.put(Welcomed(offer, header, first.blocks))
        outbox = self._outbox = asyncio.Queue()
        sender = asyncio.create_task(self._send(channel, outbox))
        try:
            await self._hear(channel, offer)
        except LostError:
            if self._outbox is not outbox:  # it was half open, and the parent has called again since
                raise StopCallingError from None
            raise
        finally:
            self._outbox = None if self._outbox is outbox else self._outbox
            sender.cancel()

    async def _handshake(self, channel: Channel) -> tuple[Offer, Parcel]:
        hello = Hello(protocols=[PROTOCOL], session=self._session, encodings=ENCODINGS, looks=False)
        offer = await ask_offer(channel, hello)
        if (problem := self._check(offer)) is not None:
            with contextlib.suppress(LostError):
                await channel.send(Parcel(Refuse(reason=problem[:200])))
            self._end(problem, done=False)
        await channel.send(Parcel(Accept(fingerprint=self._fingerprint, layout=self._layout.digest)))
        channel.allow(self._layout.largest)
        return offer, await channel.receive(60.0)

    def _check_blocks(self, header: Weights, parcel: Parcel, offer: Offer) -> None:
        nbytes = 4 * self._layout.size if header.whole else offer.nbytes
        if tuple(map(len, parcel.blocks)) != (nbytes, self._layout.moments_nbytes):
            raise LostError("the parent sent weights of another length")

    async def _hear(self, channel: Channel, offer: Offer) -> None:
        while True:
            try:
                parcel = await channel.receive(None)
                header = expect(parcel, Weights)
            except FrameError as error:
                raise LostError(f"the parent said what cannot be: {error}") from None
            except RefusedError as error:
                if error.over:
                    self._end(error.reason, done=isinstance(parcel.header, Bye))
                raise LostError(error.reason) from None
            self._check_blocks(header, parcel, offer)
            self._network.put(Answered(header, parcel.blocks))

    def _end(self, reason: str, *, done: bool) -> None:
        self._over = True
        self._network.put(Over(reason, done))
        raise StopCallingError

    async def _send(self, channel: Channel, outbox: asyncio.Queue[Parcel]) -> None:
        with contextlib.suppress(LostError):
            while True:
                await channel.send(await outbox.get())
        await channel.close(1001, "cannot send")


async def ask_offer(channel: Channel, hello: Hello) -> Offer:
    """Say hello; the parent shows what it trains."""
    channel.allow(size_of(MAX_HEADER, ()))
    await channel.send(Parcel(hello))
    return expect(await channel.receive(), Offer)


def look(uri: str | None, listen: str | None, credentials: Credentials) -> Offer:
    """What the parent trains: before a run is made, to find the recipe. Waits for one that is not there, or has not called, yet."""
    hello = Hello(protocols=[PROTOCOL], session=secrets.token_hex(16), encodings=ENCODINGS, looks=True)
    network, found, reasons, done = NetworkThread("look"), list[Offer](), list[str](), threading.Event()

    async def see(channel: Channel) -> None:
        try:
            check_parent(channel, credentials)
            found.append(await ask_offer(channel, hello))
        except FrameError as error:
            raise LostError(f"the parent said what cannot be: {error}") from None
        except RefusedError as error:
            reasons.append(error.reason)
        done.set()
        raise StopCallingError

    async def be_called(channel: Channel) -> None:
        try:
            await see(channel)
        except (LostError, StopCallingError) as error:
            reasons.append(str(error))

    try:
        if uri is not None:
            network.start(keep_calling(uri, credentials, see, reasons.append))
        elif listen is not None:
            network.start(serve_channels(listening(listen), credentials, be_called))
        done.wait(LOOKING if uri is not None else LISTENING)
    finally:
        network.stop()
    if not found:
        reason = next((each for each in reversed(reasons) if each), "there was no answer")
        raise ShoalError(f"the parent shows no recipe: {reason}; look at its address, and at --credentials")
    return found[0]


def try_credentials(credentials: Credentials) -> None:
    """What is wrong with the folder shows before anything is started."""
    credentials.context(server=False)
    if not credentials.allowed():
        raise InputError(f"{credentials.folder}: nobody is allowed yet: `shoal credentials issue NAME` for each child")
