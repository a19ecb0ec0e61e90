"""The control stream: messages to the controller, orders to the workers; msgpack, in order, none lost.

Messages travel through a pipe of the process. Orders lie in a ring that the controller writes: one that a process took and did not
obey before it died is there for its next life.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import traceback
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgpack
import numpy as np

from shoal.api import messages, orders
from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation, Match, Scores
from shoal.api.messages import Episodes, Evaluated, Message
from shoal.api.metric import METRICS
from shoal.api.orders import Order
from shoal.api.program import RingShape
from shoal.base.arrays import Layout
from shoal.base.errors import InputError, ShoalError, one_line
from shoal.base.table import import_target
from shoal.monitoring.logs import shortened
from shoal.streams.primitives import Ring

PART = 1 << 18
"""Bytes of a message that are read at once."""

# ---------------------------------------------------------------- as bytes

_KNOWN: dict[str, type] = {
    **METRICS,
    **{cls.__name__: cls for cls in (Episode, Evaluation, Match, Scores)},
    **{
        name: cls
        for module in (messages, orders)
        for name, cls in vars(module).items()
        if isinstance(cls, type) and issubclass(cls, Message | Order)
    },
}
_NAMES = {cls: name for name, cls in _KNOWN.items()}
_ARRAY = 1
_FIELDS: dict[type, tuple[str, ...]] = {}


def pack(value: Any) -> bytes:
    """A message or an order, with all that hangs on it."""
    return msgpack.packb(value, default=_encode, strict_types=True)


def unpack(data: bytes) -> Any:
    """What `pack` was given."""
    return _decode(msgpack.unpackb(data, ext_hook=_array, strict_map_key=False))


def _encode(value: Any) -> Any:
    """What msgpack does not know: dataclasses as `{"": name, field: value}`, arrays, numpy's numbers, tuples."""
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_ARRAY, msgpack.packb([value.dtype.str, list(value.shape), value.tobytes()]))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return list(value)
    cls = type(value)
    if cls not in _FIELDS:
        _FIELDS[cls] = tuple(field.name for field in dataclasses.fields(value))
    name = _NAMES.get(cls) or f"{cls.__module__}:{cls.__qualname__}"
    return {"": name, **{field: getattr(value, field) for field in _FIELDS[cls]}}


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {key: _decode(part) for key, part in value.items()}
        name = fields.pop("", None)
        if name is None:
            return fields
        cls = _KNOWN[name] if name in _KNOWN else import_target(name, key="message")
        return cls(**fields)
    return [_decode(part) for part in value] if isinstance(value, list) else value


def _array(code: int, data: bytes) -> np.ndarray:
    dtype, shape, raw = msgpack.unpackb(data)
    return np.frombuffer(raw, np.dtype(dtype)).reshape(shape).copy()


# ---------------------------------------------------------------- messages


class Failure(NamedTuple):
    """What a worker's process says before it ends."""

    wrong_input: bool
    text: str
    """One line."""
    trace: str


class MessageReader:
    """What comes through a Connection, message by message. One whose sender hangs in the middle of it is not waited for."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._bytes = connection, bytearray()

    def take(self) -> bytes | None:
        """The next message that is whole; None: there is none yet. EOFError: none will come any more."""
        while (message := self._whole()) is None:
            if not self._connection.poll(0):
                return None
            part = os.read(self._connection.fileno(), PART)  # what is there: it waits for no more
            if not part:
                raise EOFError
            self._bytes += part
        return message

    def _whole(self) -> bytes | None:
        """As a Connection writes it: four bytes of its length, or four of -1 and eight of its length, then the message."""
        begins = 4
        if len(self._bytes) < begins:
            return None
        (size,) = struct.unpack_from("!i", self._bytes)
        if size == -1:
            begins = 12
            if len(self._bytes) < begins:
                return None
            (size,) = struct.unpack_from("!Q", self._bytes, 4)
        if len(self._bytes) < begins + size:
            return None
        message = bytes(memoryview(self._bytes)[begins : begins + size])
        del self._bytes[: begins + size]
        return message


class ControlEnd:
    """One end of the pipe between a process and the controller's."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._reader = connection, MessageReader(connection)

    def fileno(self) -> int:
        """For select."""
        return self._connection.fileno()

    def send(self, message: Message) -> None:
        """Worker: say something."""
        self._connection.send_bytes(pack(message))

    def fail(self, error: BaseException) -> None:
        """Worker: say what went wrong, before the process ends."""
        text = str(error) if isinstance(error, ShoalError) else one_line(error)
        trace = "".join(traceback.format_exception(error))
        self._connection.send_bytes(
            pack(["failure", isinstance(error, InputError), shortened(text, 1000), shortened(trace)])
        )

    def take(self) -> Message | Failure | None:
        """Controller: the next message or failure; None if nothing waits."""
        try:
            data = self._reader.take()
            return None if data is None else parse(data)
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def parse(data: bytes) -> Message | Failure:
    """A message, or a failure."""
    found = unpack(data)
    if isinstance(found, list):
        return Failure(*found[1:])
    assert isinstance(found, Message)
    return found


# ---------------------------------------------------------------- orders

ROOM = 16 * 1024
"""Bytes of an order at most."""
ORDERS = RingShape(Layout.of({"size": np.zeros((), np.int64), "data": np.zeros(ROOM, np.uint8)}), 8)
"""The ring in which a process finds its orders."""


class OrderWriter:
    """The controller's end. What finds no free slot waits here; `flush` tries again."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._waiting: deque[bytes] = deque()

    def give(self, worker: str, order: Order) -> None:
        """An order for one worker of the process; an empty name: for all of them."""
        data = pack([worker, order])
        if len(data) > ROOM:
            raise InputError(f"an order of {len(data):,} bytes is too long: {type(order).__name__}; at most {ROOM:,}")
        self._waiting.append(data)
        self.flush()

    def flush(self) -> None:
        """Hand over what waits, as far as there is room."""
        while self._waiting and (slot := self._ring.begin(0.0)) is not None:
            data = self._waiting.popleft()
            slot.arrays["size"][...] = len(data)
            slot.arrays["data"][: len(data)] = np.frombuffer(data, np.uint8)
            self._ring.post(slot)


def pieces_of(message: Message) -> list[Message]:
    """The message, in parts that are short enough to be told to a worker that listens. A single episode is never cut.

    Of a long evaluation the single games stay behind: its numbers are the message.
    """
    if isinstance(message, Evaluated) and len(pack(message)) >= ROOM // 2:
        return [Evaluated(_without_games(message.evaluation))]
    if not isinstance(message, Episodes) or len(message.episodes) < 2 or len(pack(message)) < ROOM // 2:
        return [message]
    middle = len(message.episodes) // 2
    first = dataclasses.replace(message, episodes=message.episodes[:middle])
    return [*pieces_of(first), *pieces_of(Episodes(0, {}, message.episodes[middle:]))]


def _without_games(evaluation: Evaluation) -> Evaluation:
    confirmation = evaluation.confirmation and dataclasses.replace(evaluation.confirmation, matches=[])
    scores = dataclasses.replace(evaluation.scores, matches=[])
    return dataclasses.replace(evaluation, scores=scores, confirmation=confirmation)


class OrderReader:
    """The process's end. Each life makes its own, and finds first what the one before took and did not obey."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        ring.rewind()

    def take(self) -> Iterator[tuple[str, Order]]:
        """Worker and order, one by one: each counts as obeyed when the next is asked for."""
        while (slot := self._ring.take(0.0)) is not None:
            worker, order = unpack(slot.arrays["data"][: int(slot.arrays["size"])].tobytes())
            yield worker, order
            self._ring.free(slot)

    @property
    def waiting(self) -> bool:
        """There is one."""
        return self._ring.posted > self._ring.taken
