"""The server: a folder in, a web page out, until somebody ends it."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from shoal.base.errors import InputError
from shoal.dashboard.app import make_app
from shoal.dashboard.below import Root
from shoal.dashboard.security import Door
from shoal.dashboard.shown import Shown
from shoal.dashboard.stream import Streams

PORT = 8420


@dataclass(frozen=True)
class Listening:
    """Where the page is to be had."""

    address: str = "127.0.0.1"
    port: int = PORT
    """0: any that is free."""
    cert: Path | None = None
    key: Path | None = None
    insecure: bool = False

    @property
    def tls(self) -> bool:
        """Encrypted."""
        return self.cert is not None

    def check(self) -> None:
        """Beyond this machine, encrypted only, unless somebody knows what they risk."""
        if (self.cert is None) != (self.key is None):
            raise InputError("--tls-cert and --tls-key belong together: give both")
        for path in (self.cert, self.key):
            if path is not None and not path.is_file():
                raise InputError(f"there is no file {path}: give a certificate and its key in PEM format")
        if not (_is_loopback(self.address) or self.tls or self.insecure):
            raise InputError(
                f"--listen {self.address}: beyond this machine anybody on the way could read the page and take its token; "
                "give --tls-cert and --tls-key, or --insecure to risk that"
            )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class _Uvicorn(uvicorn.Server):
    """Says when it serves: signals are its own from then on."""

    ready: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell whoever waits."""
        await super().startup(sockets)
        self.ready()


class Server:
    """Bound when it is made, so its address is known before it serves."""

    def __init__(self, root: Path, listening: Listening, *, control: bool = False) -> None:
        listening.check()
        self._root = Root(root)
        self._socket = _bind(listening)
        port = self._socket.getsockname()[1]
        beyond = not _is_loopback(listening.address)
        names = {"localhost", "127.0.0.1", "[::1]", _bracketed(listening.address)}
        names |= {socket.gethostname(), socket.getfqdn()} if beyond else set()
        self._door = Door(self._root.path, port, names, tls=listening.tls, any_address=beyond)
        name = socket.gethostname() if listening.address in ("0.0.0.0", "::") else _bracketed(listening.address)
        self.url = f"{'https' if listening.tls else 'http'}://{name}:{port}/?token={self._door.token}"
        shown = Shown(self._root, Streams(closing=lambda: self._server.should_exit), control=control)
        self._server = _Uvicorn(
            uvicorn.Config(
                make_app(shown, self._door), log_level="error", access_log=False, server_header=False, ws="none",
                lifespan="off", timeout_graceful_shutdown=2, timeout_keep_alive=10, limit_concurrency=256,
                ssl_certfile=None if listening.cert is None else str(listening.cert),
                ssl_keyfile=None if listening.key is None else str(listening.key),
            )
        )  # fmt: skip
        threading.Thread(target=shown.index.look, name="first look", daemon=True).start()

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Until Ctrl-C or SIGTERM. `ready` is called once it serves."""
        if ready is not None:
            self._server.ready = ready
        try:
            self._server.run([self._socket])
        finally:
            self._root.close()

    def stop(self) -> None:
        """Let `run` return, from another thread."""
        self._server.should_exit = True


def _bind(listening: Listening) -> socket.socket:
    try:
        return socket.create_server(
            (listening.address, listening.port), backlog=128,
            family=socket.AF_INET6 if ":" in listening.address else socket.AF_INET,
        )  # fmt: skip
    except (OSError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InputError(
            f"{listening.address}, port {listening.port}, cannot be listened at ({cause}): choose another --port"
        ) from None


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
