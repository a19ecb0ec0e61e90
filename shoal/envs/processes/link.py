"""Messages between an Env and the processes of its copies: JSON with its length before it, and now and then a file descriptor.

Arrays do not travel here: they lie in memory that both sides have.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
from typing import Any

import numpy as np

from shoal.base.packing import pack, unpack
from shoal.base.plain import from_plain, to_plain
from shoal.base.tree import Tree

Message = dict[str, Any]
_LENGTH = struct.Struct("<I")


class Link:
    """One end of a connection. OSError and EOFError: the other side has ended."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any, descriptors: tuple[int, ...] = ()) -> None:
        """Whole. `descriptors` are of files that the other side gets as well."""
        body = json.dumps(message).encode()
        data = _LENGTH.pack(len(body)) + body
        if descriptors:
            data = data[socket.send_fds(self._socket, [data], descriptors) :]
        self._socket.sendall(data)

    def recv(self) -> tuple[Any, list[int]]:
        """The next message, and the descriptors that came with it."""
        head, descriptors = b"", list[int]()
        while len(head) < _LENGTH.size:
            part, found, _, _ = socket.recv_fds(self._socket, _LENGTH.size - len(head), 4)
            if not part:
                raise EOFError("the other side has ended")
            head += part
            descriptors += found
        (length,) = _LENGTH.unpack(head)
        body = bytearray(length)
        view = memoryview(body)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise EOFError("the other side has ended")
            view = view[count:]
        return json.loads(body), descriptors

    def close(self) -> None:
        self._socket.close()


# ---------------------------------------------------------------- trees as text: images and snapshots, which are rare


def as_text(tree: Tree) -> Message:
    """What `from_text` makes the same tree of."""
    arrays = {name: np.ascontiguousarray(array) for name, array in pack(tree).items()}
    return {
        name: [to_plain(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode()]
        for name, array in arrays.items()
    }


def from_text(text: Message) -> Tree:
    """The tree that was sent."""
    return unpack(
        {
            name: np.frombuffer(base64.b64decode(data), from_plain(dtype)).reshape(shape).copy()
            for name, (dtype, shape, data) in text.items()
        }
    )
