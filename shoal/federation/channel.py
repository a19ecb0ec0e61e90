"""One connection: parcels in order, both ways, with a time limit on everything."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from shoal.base.errors import one_line
from shoal.federation.credentials import fingerprint
from shoal.federation.frames import FIRST, FrameError, decode, encode
from shoal.federation.messages import Parcel

SUBPROTOCOL = "shoal.federation.1"
SAYING = 10.0
"""Seconds in which each message of the handshake has to come."""
SENDING = 60.0
"""Seconds that a message may take to be handed to the network."""
PING, PONG = 8.0, 12.0
"""Seconds between two signs of life, and until one that is missing ends the connection: half-open ones are seen within 20 s."""
OPENING = 8.0
"""Seconds for TLS, and for the upgrade to a websocket."""
PIECE = 32 << 10
"""Bytes that are sent at a time: signs of life get between them, however slow the line."""

FAULTS = (1002, 1007, 1009)
"""Codes with which this end hangs up on one that breaks the rules of websockets, or the limit of their length."""

OPTIONS: dict[str, Any] = {
    "subprotocols": [SUBPROTOCOL], "compression": None, "max_size": FIRST, "max_queue": 2, "open_timeout": OPENING,
    "ping_interval": PING, "ping_timeout": PONG, "close_timeout": 2.0, "ssl_handshake_timeout": OPENING,
}  # fmt: skip
"""Of both ends."""


class LostError(Exception):
    """The connection is no more."""


class Channel:
    """Either end of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sent = self._received = 0
        self.nbytes_in = self.nbytes_out = 0

    @property
    def fingerprint(self) -> str:
        """Of the certificate at the other end."""
        found: ssl.SSLObject | None = self._connection.transport.get_extra_info("ssl_object")
        certificate = found.getpeercert(binary_form=True) if found is not None else None
        if certificate is None:
            raise FrameError("the other end has shown no certificate")
        return fingerprint(certificate)

    @property
    def address(self) -> str:
        """Of the other end."""
        return str((self._connection.remote_address or ("",))[0])

    def allow(self, nbytes: int) -> None:
        """From now on frames may be so long."""
        self._connection.protocol.max_message_size = nbytes

    async def send(self, parcel: Parcel) -> int:
        """The bytes of it."""
        data = encode(parcel.frame, self._sent)
        self._sent += 1
        try:
            await asyncio.wait_for(self._connection.send(_pieces(data)), SENDING)
        except (ConnectionClosed, TimeoutError, OSError) as error:
            raise LostError(_why(error)) from None
        self.nbytes_out += len(data)
        return len(data)

    async def receive(self, timeout: float | None = SAYING) -> Parcel:
        """The next one. Without a limit it is the signs of life that end a connection."""
        try:
            data = await asyncio.wait_for(self._connection.recv(), timeout)
        except (ConnectionClosed, TimeoutError, OSError) as error:
            if isinstance(error, ConnectionClosed) and _is_fault(error):
                raise FrameError("it is longer than agreed, or no websocket's") from None
            raise LostError(_why(error)) from None
        if not isinstance(data, bytes):
            raise FrameError("it is text")
        number, self._received = self._received, self._received + 1
        self.nbytes_in += len(data)
        return Parcel.of(decode(data, number))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Hang up; the other end is not waited for long, and TLS not at all."""
        try:
            with contextlib.suppress(Exception):
                await self._connection.close(code, reason[:100])
        finally:
            self._connection.transport.abort()


def _is_fault(error: ConnectionClosed) -> bool:
    """This end hung up first, for that reason."""
    return error.sent is not None and error.sent.code in FAULTS and not error.rcvd_then_sent


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), PIECE):
        yield data[at : at + PIECE]


def _why(error: BaseException) -> str:
    """Without an address: it is told and logged."""
    if isinstance(error, TimeoutError):
        return "it said nothing for too long"
    if isinstance(error, ConnectionClosed):
        said = error.rcvd or error.sent
        return f"the connection was closed ({said.code} {said.reason})".strip() if said else "the connection broke"
    return f"the connection broke ({one_line(error).split(':')[0]})"
