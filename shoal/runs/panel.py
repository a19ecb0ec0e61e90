"""Orders from another terminal: the Unix socket `control.sock` in the run folder.

In comes a line of JSON, `{"order": "status"}`; out goes a line of JSON, the answer. Only who started the run may connect: the
socket has mode 0600 from its first moment, and there is no port. Linux only, as `/proc` and `epoll` are.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.base.errors import InputError, ShoalError
from shoal.monitoring.jsonl import encode_line
from shoal.monitoring.logs import LOG
from shoal.monitoring.run_folder import RunFolder

PATIENCE = 5.0
"""Seconds a client has to say its order and to take the answer."""
MAX_CLIENTS = 16
"""At once; one more, and the oldest has to go."""
MAX_ORDER = 4096
"""Bytes of an order."""

Answer = Callable[[str], dict[str, Any]]


class NotRunningError(ShoalError):
    """Nobody trains in the folder."""


@dataclass(eq=False)
class _Client:
    socket: socket.socket
    until: float
    """When patience ends."""
    heard: bytes = b""
    reply: bytes = b""
    """What it has not taken yet."""


class Panel:
    """The run's end. `answer` gets the word of an order; a ShoalError of it becomes `{"error": ...}`.

    Made by the one process that holds the folder's lock, and closed before that lock: so a socket that is there already is that of
    a dead run. No threads: somebody calls `poll`, again and again or when `fileno` is readable.
    """

    def __init__(self, folder: RunFolder, answer: Answer, clock: Callable[[], float] = time.monotonic) -> None:
        self._answer, self._clock = answer, clock
        self._name = folder.control.name
        self._clients: list[_Client] = []  # oldest first
        with contextlib.ExitStack() as undo:
            self._folder = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.callback(os.close, self._folder)
            try:
                self._listener = self._listen()
            except OSError as error:
                raise ShoalError(
                    f"{folder.control} cannot be made ({error.strerror}): keep runs where sockets can be"
                ) from None
            self._selector = selectors.EpollSelector()
            self._selector.register(self._listener, selectors.EVENT_READ)
            undo.pop_all()
        self._closed = False

    def _listen(self) -> socket.socket:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        umask = os.umask(0o177)
        try:
            listener.bind(_address(self._folder, self._name))
            listener.listen(MAX_CLIENTS)
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(umask)
        return listener

    def fileno(self) -> int:
        """Readable when `poll` has something to do, be it a new client or the rest of an order."""
        return self._selector.fileno()

    def poll(self) -> None:
        """Do what can be done at once. Never blocks, and no client can make it fail."""
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._accept()
            elif key.data in self._clients:  # else it had to go a moment ago
                self._serve(key.data)
        while self._clients and self._clients[0].until < self._clock():
            self._drop(self._clients[0])

    def close(self) -> None:
        """Hang up and take the socket out of the folder. Again: nothing happens."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._folder)
        for client in list(self._clients):
            self._drop(client)
        self._selector.close()
        self._listener.close()
        os.close(self._folder)

    # ---------------------------------------------------------------- clients

    def _accept(self) -> None:
        for _ in range(MAX_CLIENTS):
            try:
                connection, _address = self._listener.accept()
            except OSError:  # nobody else is there, or there are no handles left for them
                return
            connection.setblocking(False)
            client = _Client(connection, self._clock() + PATIENCE)
            if len(self._clients) == MAX_CLIENTS:
                self._drop(self._clients[0])
            self._clients.append(client)
            self._selector.register(connection, selectors.EVENT_READ, client)
            self._serve(client)

    def _serve(self, client: _Client) -> None:
        try:
            if not client.reply:
                self._hear(client)
            if client.reply:
                self._speak(client)
        except BlockingIOError:
            return
        except OSError:  # it is gone
            self._drop(client)

    def _hear(self, client: _Client) -> None:
        heard = client.socket.recv(MAX_ORDER)
        if not heard:
            self._drop(client)
            return
        client.heard += heard
        if b"\n" in client.heard or len(client.heard) > MAX_ORDER:
            client.reply = encode_line(self._reply(client.heard.partition(b"\n")[0]))

    def _speak(self, client: _Client) -> None:
        client.reply = client.reply[client.socket.send(client.reply) :]
        if client.reply:
            self._selector.modify(client.socket, selectors.EVENT_WRITE, client)
        else:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._clients.remove(client)
        self._selector.unregister(client.socket)
        client.socket.close()

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            order = json.loads(line)["order"]
            if not isinstance(order, str):
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            return {"error": 'an order is one line of JSON such as {"order": "status"}'}
        try:
            return self._answer(order)
        except ShoalError as error:
            return {"error": str(error)}
        except Exception:  # nobody's question may end a run of days
            LOG.exception("no answer to the order '%s'", order)
            return {"error": f"the run failed to answer '{order}' and goes on: logs/ says why"}


# -------------------------------------------------------------------- the other end


def ask(folder: RunFolder, order: str, timeout: float = 5.0) -> dict[str, Any]:
    """Give the run in `folder` an order and wait for its answer. NotRunningError where nobody trains."""
    if not folder.path.is_dir():
        raise InputError(f"there is no run folder {folder.path}: give the folder of a run, or EXPERIMENT/TRIAL")
    deadline = time.monotonic() + timeout
    try:
        with _connect(folder, deadline) as connection:
            connection.sendall(encode_line({"order": order}))
            reply = _read_line(connection, deadline)
    except TimeoutError:
        raise ShoalError(
            f"{folder.name} gave no answer to '{order}' within {timeout:g} s: its process {folder.owner} is busy or stopped; "
            "it may still obey, so look again with `shoal status`"
        ) from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotRunningError(
            f"{folder.name} is not running on this machine: it ended; its results are in {folder.path}"
        ) from None
    except OSError as error:
        raise ShoalError(
            f"{folder.name} cannot be asked ({error.strerror}): try again, as the user who started it"
        ) from None
    return _document(reply, folder)


def _connect(folder: RunFolder, deadline: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    handle = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            connection.settimeout(_left(deadline))
            try:
                connection.connect(_address(handle, folder.control.name))
                return connection
            except BlockingIOError:  # too many wait before us: Linux does not queue there
                time.sleep(0.02)
    except OSError:
        connection.close()
        raise
    finally:
        os.close(handle)


def _read_line(connection: socket.socket, deadline: float) -> bytes:
    """Until the end of the line, or until the other side hangs up."""
    parts = b""
    while not parts.endswith(b"\n"):
        connection.settimeout(_left(deadline))
        part = connection.recv(65536)
        if not part:
            break
        parts += part
    return parts


def _document(reply: bytes, folder: RunFolder) -> dict[str, Any]:
    try:
        document = json.loads(reply)
    except ValueError:
        raise ShoalError(
            f"{folder.name} hung up before it answered: it is ending, or many ask at once; try again"
        ) from None
    assert isinstance(document, dict), "a panel answers with an object"
    return document


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _address(folder: int, name: str) -> str:
    """By the handle of the folder: the address of a socket has 108 bytes at most, the path of a run may have more."""
    return f"/proc/self/fd/{folder}/{name}"
