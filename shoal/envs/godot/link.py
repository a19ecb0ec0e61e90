"""The trainer's end of a game's connection: a socket on loopback; JSON behind its length in bytes (4, the lowest first)."""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any

from shoal.base.errors import InputError

ADDRESS = "127.0.0.1"
LONGEST = 1 << 30
"""Bytes of a message: a longer one is none."""


class Link:
    """Serves one game. Port 0: any that is free."""

    def __init__(self, port: int = 0) -> None:
        self._server = socket.socket()
        self._game: socket.socket | None = None
        self._data = b""
        try:
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._server.bind((ADDRESS, port))
            self._server.listen(1)
        except OSError as error:
            self._server.close()
            raise InputError(f"env.kwargs.port = {port} is in use: end who has it, or choose another") from error
        self.port = int(self._server.getsockname()[1])

    def accept(self, timeout: float) -> bool:
        """Whether the game has called."""
        if not select.select([self._server], [], [], timeout)[0]:
            return False
        self._game, _ = self._server.accept()
        self._game.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return True

    @property
    def connected(self) -> bool:
        """The game has called."""
        return self._game is not None

    def send(self, message: dict[str, Any]) -> None:
        """OSError: the game is no more."""
        assert self._game is not None, "accept comes first"
        text = json.dumps(message, separators=(",", ":")).encode()
        self._game.sendall(struct.pack("<I", len(text)) + text)

    def take(self, timeout: float) -> dict[str, Any] | None:
        """The next message; None: it is not there in `timeout` seconds. EOFError: the game closed; ValueError: no message."""
        assert self._game is not None, "accept comes first"
        if not select.select([self._game], [], [], timeout)[0]:
            return None
        try:
            data = self._game.recv(1 << 20)
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        self._data += data
        return self._message()

    def _message(self) -> dict[str, Any] | None:
        if len(self._data) < 4:
            return None
        (size,) = struct.unpack_from("<I", self._data)
        if size > LONGEST:
            raise ValueError("a message would be longer than 1 GB")
        if len(self._data) < 4 + size:
            return None
        text, self._data = self._data[4 : 4 + size], self._data[4 + size :]
        message = json.loads(text)
        if not isinstance(message, dict):
            raise ValueError("a message is no dictionary")
        return message

    def close(self) -> None:
        """Of both ends."""
        if self._game is not None:
            self._game.close()
        self._server.close()
