"""The parent's side of the network: children come, say what they have to, and go. In the network thread; what matters to the parent
is put into its inbox, checked as far as it can be without weights."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.base.errors import InputError
from shoal.federation.channel import Channel, LostError
from shoal.federation.credentials import Credentials
from shoal.federation.frames import PROTOCOL, FrameError
from shoal.federation.layout import Layout
from shoal.federation.messages import (
    Accept,
    Bye,
    Contribution,
    Hello,
    Offer,
    Parcel,
    Refuse,
    RefusedError,
    common_protocol,
    expect,
)
from shoal.federation.network import LOOK, GuardedSocket, NetworkThread, keep_calling, serve_channels


@dataclass(frozen=True)
class Joined:
    """A child is there, and waits for weights."""

    child: str
    number: int
    """Of the connection."""
    session: str
    where: str
    """What kind of address it has."""


@dataclass(frozen=True)
class Came:
    """A contribution."""

    child: str
    number: int
    header: Contribution
    blocks: tuple[bytes, ...]
    nbytes: int


@dataclass(frozen=True)
class Left:
    """A child is gone. `fault`: it broke the protocol."""

    child: str
    number: int
    reason: str
    fault: bool = False


@dataclass(frozen=True)
class Refused:
    """Somebody was not let in."""

    who: str
    reason: str


@dataclass(frozen=True)
class Knocked:
    """Strangers came to nothing."""

    said: str


@dataclass(eq=False)
class _Member:
    channel: Channel
    fingerprint: str
    number: int
    outbox: asyncio.Queue[Parcel] = field(default_factory=lambda: asyncio.Queue(4))
    answered: bool = True
    """It has no contribution under way."""
    reason: str = ""
    """Why we hung up, if we did."""


class Hub:
    """All children of a parent. `unwanted`: why a child may not come, by its name."""

    def __init__(
        self, network: NetworkThread, credentials: Credentials, offer: Offer, layout: Layout,
        unwanted: Callable[[str], str | None],
    ) -> None:  # fmt: skip
        self._network, self._credentials, self._unwanted = network, credentials, unwanted
        self._offer, self._layout = offer, layout
        self._codec = layout.codec(offer.encoding, offer.share)
        self._members: dict[str, _Member] = {}
        self._count = 0
        self._allowed = credentials.allowed()

    def listen(self, sock: GuardedSocket) -> None:
        """Children call."""

        def tell(said: str) -> None:
            self._network.put(Knocked(said))

        self._network.start(serve_channels(sock, self._credentials, self._session, tell))
        self._network.start(self._watch())

    def call(self, uris: list[str]) -> None:
        """Call children, again and again."""
        for number, uri in enumerate(uris):

            def tell(reason: str, number: int = number) -> None:
                self._network.put(Refused(f"child {number + 1} of --children", reason))

            self._network.start(keep_calling(uri, self._credentials, self._session, tell))
        self._network.start(self._watch())

    # ------------------------------------------------------------ by whoever mixes

    def send(self, child: str, parcel: Parcel) -> None:
        """If it is still there."""
        self._network.loop.call_soon_threadsafe(self._put, child, parcel)

    def dismiss(self, child: str, reason: str, *, over: bool) -> None:
        """Say goodbye, and hang up."""
        self._network.start(self._hang_up(child, reason, over=over))

    def close(self, reason: str, *, over: bool, timeout: float = 3.0) -> None:
        """To all."""

        async def all_() -> None:
            await asyncio.gather(*(self._hang_up(child, reason, over=over) for child in list(self._members)))

        with contextlib.suppress(Exception):
            self._network.run(all_(), timeout)

    def _put(self, child: str, parcel: Parcel) -> None:
        member = self._members.get(child)
        if member is None:
            return
        member.answered = True
        with contextlib.suppress(asyncio.QueueFull):  # it takes nothing: its sending will time out
            member.outbox.put_nowait(parcel)

    async def _hang_up(self, child: str, reason: str, *, over: bool) -> None:
        member = self._members.get(child)
        if member is None:
            return
        member.reason = reason
        with contextlib.suppress(LostError, asyncio.TimeoutError):
            await asyncio.wait_for(member.channel.send(Parcel(Bye(reason=reason[:200], over=over))), 2.0)
        await member.channel.close(1000, "bye")

    # ------------------------------------------------------------ one connection

    async def _session(self, channel: Channel) -> None:
        name = "somebody"
        try:
            digest = channel.fingerprint
            found = self._allowed.get(digest)
            if found is None:
                raise RefusedError("its certificate is not on the list, or was revoked", over=True)
            name = found
            session = await self._handshake(channel, name)
        except (FrameError, RefusedError) as error:
            self._network.put(Refused(name, str(error)))
            with contextlib.suppress(LostError):
                if name != "somebody":
                    await channel.send(Parcel(Refuse(reason=str(error)[:200])))
            await channel.close(1008, "refused")
            return
        except LostError:
            return
        if session is not None:
            await self._take_part(channel, name, digest, session)

    async def _handshake(self, channel: Channel, name: str) -> str | None:
        """The session of a child that takes part; None: it only looked."""
        if (reason := self._unwanted(name)) is not None:
            raise RefusedError(reason, over=True)
        hello = expect(await channel.receive(), Hello)
        assert common_protocol(hello.protocols) == PROTOCOL
        if self._offer.encoding not in hello.encodings:
            raise RefusedError(f"it does not know {self._offer.encoding}: use the same release at both ends", over=True)
        await channel.send(Parcel(self._offer))
        if hello.looks:
            with contextlib.suppress(LostError):
                await channel.receive()
            return None
        accept = expect(await channel.receive(60.0), Accept)
        if accept.fingerprint != self._offer.fingerprint or accept.layout != self._layout.digest:
            raise RefusedError("its recipe or its model is another: use the same recipe and release", over=True)
        return hello.session

    async def _take_part(self, channel: Channel, name: str, digest: str, session: str) -> None:
        self._count += 1
        member = _Member(channel, digest, self._count)
        if (before := self._members.get(name)) is not None:  # it came back, and its last connection is half open
            before.reason = "it came again"
            await before.channel.close(1001, "came again")
        self._members[name] = member
        channel.allow(self._layout.largest)
        self._network.put(Joined(name, member.number, session, kind_of(channel.address)))
        sender = asyncio.create_task(self._send(member))
        reason, fault = "", False
        try:
            await self._hear(name, member)
        except FrameError as error:
            reason, fault = str(error), True
            await channel.close(1002, "protocol")
        except (LostError, RefusedError) as error:
            reason = str(error)
        finally:
            sender.cancel()
            if self._members.get(name) is member:
                del self._members[name]
            self._network.put(Left(name, member.number, member.reason or reason, fault))

    async def _send(self, member: _Member) -> None:
        with contextlib.suppress(LostError):
            while True:
                await member.channel.send(await member.outbox.get())
        await member.channel.close(1001, "cannot send")

    async def _hear(self, name: str, member: _Member) -> None:
        due = (self._codec.nbytes, self._layout.moments_nbytes)
        while True:
            before = member.channel.nbytes_in
            parcel = await member.channel.receive(None)
            header = expect(parcel, Contribution)
            if not member.answered:
                raise FrameError("a second contribution before the first was answered")
            if (got := tuple(map(len, parcel.blocks))) != due:
                raise FrameError(f"blocks of {got} bytes, and {due} are due")
            member.answered = False
            nbytes = member.channel.nbytes_in - before
            self._network.put(Came(name, member.number, header, parcel.blocks, nbytes))

    async def _watch(self) -> None:
        """Who is revoked is hung up on."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                self._allowed = self._credentials.allowed()
            except InputError:  # it is being written; who cannot be looked up is not let in anew either way
                continue
            for name, member in list(self._members.items()):
                if member.fingerprint not in self._allowed and not member.reason:
                    await self._hang_up(name, "its certificate was revoked", over=True)


def kind_of(address: str) -> str:
    """What kind of network it is in: the address itself is nobody's business."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    return "this machine" if found.is_loopback else "private" if found.is_private else "internet"
