"""What travels beside the steps: settings of the engine and parameters of the game go to the player, statistics come back."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

ENGINE = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7").bytes_le
PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400").bytes_le
STATISTICS = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520").bytes_le
RESOLUTION, QUALITY, TIME_SCALE, TARGET_FRAME_RATE, CAPTURE_FRAME_RATE = range(5)
AVERAGE, MOST_RECENT, SUM, HISTOGRAM = range(4)
FLOAT = 0


class Statistic(NamedTuple):
    """One number that the game reports."""

    name: str
    value: float
    how: int
    """How several become one."""


def framed(channel: bytes, payload: bytes) -> bytes:
    """One message of a channel."""
    return channel + struct.pack("<i", len(payload)) + payload


def engine_messages(
    time_scale: float, capture_frame_rate: int, resolution: tuple[int, int] | None, quality: int | None
) -> bytes:
    """How fast time passes in the game, and how it draws."""
    parts = [struct.pack("<if", TIME_SCALE, time_scale), struct.pack("<ii", TARGET_FRAME_RATE, -1)]
    parts.append(struct.pack("<ii", CAPTURE_FRAME_RATE, capture_frame_rate))
    if resolution is not None:
        parts.append(struct.pack("<iii", RESOLUTION, *resolution))
    if quality is not None:
        parts.append(struct.pack("<ii", QUALITY, quality))
    return b"".join(framed(ENGINE, part) for part in parts)


def parameter_messages(parameters: Mapping[str, float]) -> bytes:
    """Numbers that the game reads by name."""
    return b"".join(
        framed(PARAMETERS, _text(name) + struct.pack("<if", FLOAT, value)) for name, value in parameters.items()
    )


def read_frames(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Channel and payload of each message; ValueError where the bytes are none."""
    at = 0
    while at < len(data):
        if at + 20 > len(data):
            raise ValueError("a side channel's message is cut off")
        (size,) = struct.unpack_from("<i", data, at + 16)
        if size < 0 or at + 20 + size > len(data):
            raise ValueError("a side channel's message has a wrong length")
        yield data[at : at + 16], data[at + 20 : at + 20 + size]
        at += 20 + size


def read_statistics(data: bytes) -> list[Statistic]:
    """Those among all messages; other channels are passed over."""
    found = []
    for channel, payload in read_frames(data):
        if channel == STATISTICS:
            try:
                (size,) = struct.unpack_from("<i", payload)
                value, how = struct.unpack_from("<fi", payload, 4 + size)
                found.append(Statistic(payload[4 : 4 + size].decode(), value, how))
            except (struct.error, UnicodeDecodeError) as error:
                raise ValueError(f"a statistic cannot be read: {error}") from error
    return found


def reduced(statistics: list[Statistic]) -> dict[str, float]:
    """Name -> the number of an episode."""
    by_name: dict[str, list[Statistic]] = {}
    for each in statistics:
        by_name.setdefault(each.name, []).append(each)
    return {name: _one(values) for name, values in by_name.items()}


def _one(values: list[Statistic]) -> float:
    if values[-1].how == MOST_RECENT:
        return values[-1].value
    total = sum(each.value for each in values)
    return total if values[-1].how == SUM else total / len(values)


def _text(text: str) -> bytes:
    encoded = text.encode("ascii", errors="replace")
    return struct.pack("<i", len(encoded)) + encoded
