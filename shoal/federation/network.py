"""The network thread: an asyncio loop of its own, so that training, saving and evaluating never hold up a sign of life."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import serve
from websockets.exceptions import InvalidHandshake, InvalidURI

from shoal.base.errors import InputError, one_line
from shoal.federation.channel import OPTIONS, Channel, LostError
from shoal.federation.credentials import Credentials
from shoal.federation.frames import FrameError
from shoal.federation.strikes import RateLimit
from shoal.monitoring.logs import LOG

STOPPING = 5.0
"""Seconds until a thread that is told to end has to."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before another attempt to connect: twice as many each time."""
LOOK = 1.0
"""Seconds between two looks at who is allowed, and at who is not."""
BURST, PER_SECOND = 20, 0.5
"""Connections of one address, before they are closed unread; 20 at once, then one every other second."""
ALL_BURST, ALL_PER_SECOND = 80, 8.0
"""The same, of all addresses together: what is held of those who have not shown a certificate stays small."""

NO_CERTIFICATE = 20.0
"""Seconds after which a connection that has not become a websocket never will: TLS and the upgrade have 8 each."""

Serve = Callable[[Channel], Awaitable[None]]


class NetworkThread:
    """Runs coroutines; `wake` is called after something was put into the inbox."""

    def __init__(self, name: str, wake: Callable[[], object] | None = None) -> None:
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._wake = wake
        self._tasks: set[Any] = set()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda _, said: LOG.info("network: %s", said.get("message", "")))
        self.loop.run_forever()

    def put(self, event: Any) -> None:
        """For whoever polls."""
        self.inbox.put(event)
        if self._wake is not None:
            self._wake()

    def take(self, timeout: float = 0.0) -> Iterator[Any]:
        """All that came; waits at most so long for the first."""
        with contextlib.suppress(queue.Empty):
            yield self.inbox.get(timeout=timeout) if timeout else self.inbox.get_nowait()
            while True:
                yield self.inbox.get_nowait()

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """In the thread, and without a result. A loop holds its tasks weakly, so they are held here."""

        async def held() -> None:
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                await coroutine
            finally:
                self._tasks.discard(task)

        asyncio.run_coroutine_threadsafe(held(), self.loop)

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout: float) -> Any:
        """In the thread; its result is waited for."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def stop(self) -> None:
        """Cancel what runs, end the thread."""
        if not self._thread.is_alive():
            return

        async def cancel() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOPPING / 2) if tasks else None
            await asyncio.sleep(0.05)  # transports that were aborted are closed by callbacks

        with contextlib.suppress(Exception):
            self.run(cancel(), STOPPING)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(STOPPING)
        if not self._thread.is_alive():
            self.loop.close()


# ---------------------------------------------------------------- to be called


class Strangers:
    """Counts connections that came to nothing, without a word about from where."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._knocking: dict[Any, float] = {}
        self._failed = self._too_many = 0
        self._tell_at = 1

    def knocked(self, address: tuple[Any, ...]) -> None:
        """A connection was taken."""
        self._knocking[address[:2]] = self._clock()

    def too_many(self) -> None:
        """One was beyond the rate, and closed unread."""
        self._too_many += 1

    def known(self, address: tuple[Any, ...]) -> None:
        """It showed a certificate of the authority."""
        self._knocking.pop(address[:2], None)

    def news(self) -> str:
        """What to tell people, when there are twice as many as they were told last: a flood must not fill the disk."""
        for address in [each for each, since in self._knocking.items() if self._clock() - since >= NO_CERTIFICATE]:
            del self._knocking[address]
            self._failed += 1
        if self._failed + self._too_many < self._tell_at:
            return ""
        self._tell_at = 2 * (self._failed + self._too_many)
        return f"{self._failed:,} connections without a good certificate, {self._too_many:,} closed unread, since the start"


class GuardedSocket(socket.socket):
    """A listening socket that closes connections beyond a rate before a byte of them is read."""

    rate = RateLimit(BURST, PER_SECOND)
    whole = RateLimit(ALL_BURST, ALL_PER_SECOND)
    strangers = Strangers()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next that is within its rate."""
        while True:
            connection, address = super().accept()
            if self.rate.allows(address[0]) and self.whole.allows(""):
                self.strangers.knocked(address)
                return connection, address
            self.strangers.too_many()
            connection.close()


def listening(address: str) -> GuardedSocket:
    """A socket at HOST:PORT."""
    name, port = parse_address(address)
    try:
        family = socket.getaddrinfo(name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise InputError(f"--listen {address}: {error.strerror}; write HOST:PORT, as in 0.0.0.0:8430") from None
    made = GuardedSocket(family[0], socket.SOCK_STREAM)
    made.rate, made.whole = RateLimit(BURST, PER_SECOND), RateLimit(ALL_BURST, ALL_PER_SECOND)
    made.strangers = Strangers()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(family[4])
        made.listen(64)
    except OSError as error:
        made.close()
        raise InputError(f"--listen {address} cannot be had ({error.strerror}): choose another port") from None
    made.setblocking(False)
    return made


def parse_address(address: str) -> tuple[str, int]:
    """HOST:PORT, with brackets around an IPv6 address."""
    name, _, port = address.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535 or not name:
        raise InputError(f"--listen {address}: write HOST:PORT, as in 0.0.0.0:8430")
    return name.strip("[]"), int(port)


async def serve_channels(
    sock: GuardedSocket, credentials: Credentials, handle: Serve, tell: Callable[[str], None] = lambda said: None
) -> None:
    """Hear whoever shows a certificate of this authority; `handle` has each connection until it returns, `tell` hears of those
    who show none. Until it is cancelled."""

    async def session(connection: Connection) -> None:
        sock.strangers.known(connection.remote_address)
        channel = Channel(connection)
        try:
            await handle(channel)
        finally:
            await channel.close()

    with sock:
        context = credentials.context(server=True)
        async with serve(session, sock=sock, ssl=context, server_header=None, logger=_QUIET, **OPTIONS):
            while True:
                await asyncio.sleep(LOOK)
                if said := sock.strangers.news():
                    tell(said)


# ---------------------------------------------------------------- to call


def check_uri(uri: str, key: str) -> str:
    """`wss://HOST:PORT` and nothing else."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(uri)
        fine = parts.scheme == "wss" and parts.hostname and parts.port and not parts.username
        if not fine or parts.path not in ("", "/") or parts.query:
            raise ValueError
    except ValueError:
        raise InputError(f"{key} {uri}: write wss://HOST:PORT") from None
    return uri


async def open_channel(uri: str, credentials: Credentials) -> Channel:
    """Call; LostError says why it did not come to be, without the address."""
    try:
        context = credentials.context(server=False)
        connection = await connect(uri, ssl=context, proxy=None, logger=_QUIET, **OPTIONS)
    except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:  # a refused certificate is an OSError too
        raise LostError(_said(error)) from None
    return Channel(connection)


def _said(error: BaseException) -> str:
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'the other end hung up'}"
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else type(error).__name__


async def keep_calling(uri: str, credentials: Credentials, handle: Serve, tell: Callable[[str], None]) -> None:
    """Call again and again, with longer and longer breaks; `handle` has each connection, and ends it with `StopCallingError`."""
    wait, told = FIRST_WAIT, ""
    while True:
        began = asyncio.get_running_loop().time()
        try:
            channel = await open_channel(uri, credentials)
            told = ""  # what ends this connection is news
            try:
                await handle(channel)
            finally:
                await channel.close()
        except StopCallingError:
            return
        except (LostError, FrameError) as error:
            if str(error) != told:
                told = str(error)
                tell(told)
        except Exception as error:  # whatever it is, the next attempt may go better
            LOG.info("network: %s", one_line(error))
            tell(f"the connection failed ({type(error).__name__})")
        if asyncio.get_running_loop().time() - began > LONGEST_WAIT:
            wait, told = FIRST_WAIT, ""
        await asyncio.sleep(wait * random.uniform(0.5, 1.0))
        wait = min(2 * wait, LONGEST_WAIT)


class StopCallingError(Exception):
    """There is no use in another attempt."""


class _Quiet:
    """What the library logs holds addresses: it goes nowhere."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - as `logging` has it
        return False

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


_QUIET: Any = _Quiet()
