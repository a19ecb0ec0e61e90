"""The web server beside a run that Prometheus asks: a page for each request, and nothing that could hold the run up."""

from __future__ import annotations

import errno
import platform
import socket
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from shoal.base.errors import InputError
from shoal.monitoring.logs import LOG

if TYPE_CHECKING:
    from shoal.api.experiment import PrometheusConfig

PATIENCE = 10.0
"""Seconds that a client may be silent."""


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape a second is not worth a line each."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """A thread for each client, for whom nobody waits."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, family: socket.AddressFamily, place: Any) -> None:
        self.address_family = family
        super().__init__(place, _Handler)

    def server_bind(self) -> None:
        """Without asking a name server who we are."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up or fell silent is not worth a traceback on the terminal."""
        LOG.debug("a client of /metrics was dropped", exc_info=True)


def listen(config: PrometheusConfig) -> MetricsServer:
    """At the address and port of the settings; where that cannot be, an error that names the remedy."""
    address, port = config.address, config.port
    try:
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        return MetricsServer(family, place)
    except socket.gaierror:
        raise InputError(
            f"log.prometheus.address = '{address}' is no address: use 127.0.0.1, or 0.0.0.0 for all of this machine's"
        ) from None
    except OSError as error:
        raise _cannot_listen(config, error) from error


def _cannot_listen(config: PrometheusConfig, error: OSError) -> InputError:
    if error.errno == errno.EADDRINUSE:
        return InputError(
            f"log.prometheus.port = {config.port} is in use, perhaps by another run: choose another, or 0 for any that is free"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return InputError(
            f"log.prometheus.address = '{config.address}' is not of this machine: use 127.0.0.1, or 0.0.0.0 for all"
        )
    place = f"log.prometheus = {config.address}:{config.port}"
    return InputError(f"{place} cannot be listened on ({error.strerror}): choose a port above 1023")


def reachable(address: str) -> str:
    """An address to ask at: that of all addresses is none."""
    return platform.node() if address in ("0.0.0.0", "::") else f"[{address}]" if ":" in address else address
