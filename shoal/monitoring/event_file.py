"""The event files that TensorBoard reads: records of protobuf with their checksums.

TensorBoard's own `EventFileWriter` is not used: its import costs 0.12 s more than the protobuf classes alone, it loads
TensorFlow wherever that is installed, and it writes from a thread behind a queue of ten.
"""

from __future__ import annotations

import os
import platform
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.base.files import make_folder, plain_file

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event


class EventFile:
    """One new file in `folder`; every event is on its way to the disk when `add` returns."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        make_folder(folder)
        now = time.time_ns()
        name = f"events.out.tfevents.{now // 10**9:010d}.{platform.node()}.{os.getpid()}.{now % 10**9:09d}"
        self._file = open(folder / name, "xb", opener=plain_file)  # noqa: SIM115
        self.add(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add(self, event: Event) -> None:
        """Append one event."""
        data = event.SerializeToString()
        header = struct.pack("<Q", len(data))
        self._file.write(header + _checksum(header) + data + _checksum(data))
        self._file.flush()

    def close(self) -> None:
        """Write what is left and let go of the file."""
        self._file.close()


def _checksum(data: bytes) -> bytes:
    """CRC-32C, rotated and shifted as the TFRecord format wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # Castagnoli's polynomial, reversed
    return byte


_CRC_TABLE = [_crc_entry(byte) for byte in range(256)]
