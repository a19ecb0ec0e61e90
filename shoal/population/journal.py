"""The journal of a population: every decision as a line of JSON, in the order in which they were made.

It only grows. Each line is on the disk before anybody acts on it, and proves itself and its place by a checksum over it and the
one before. What a crash left half-written at the end is cut off; everything else that is known of a population follows from it.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.base.errors import ShoalError
from shoal.base.files import as_typed, plain_file, sync_folder, unwritable
from shoal.monitoring.jsonl import encode_line

CHECK = "check"

Line = dict[str, Any]


class Journal:
    """One file. One writer, any number of readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._last = ""

    def read(self) -> list[Line]:
        """All lines that are whole, oldest first. Anything wrong before the end is damage, which no crash does."""
        return self._read()[0]

    def _read(self) -> tuple[list[Line], int, str]:
        """The lines, where the last of them ends, and its checksum."""
        try:
            with open(self.path, "rb", opener=plain_file) as file:
                raw = file.read()
        except FileNotFoundError:
            return [], 0, ""
        found: list[Line] = []
        last, at = "", 0
        parts = raw.split(b"\n")
        for number, part in enumerate(parts[:-1], 1):
            line = _proven(part, last)
            if line is None:
                if b"\n".join(parts[number:]).strip():
                    raise ShoalError(f"{as_typed(self.path)} is damaged at line {number:,}: restore it from a copy")
                break
            last, at = line.pop(CHECK), at + len(part) + 1
            found.append(line)
        return found, at, last

    def open(self) -> list[Line]:
        """Begin to write, behind what is whole; those lines."""
        lines, end, self._last = self._read()
        try:
            new = not self.path.exists()
            self._file = plain_file(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.ftruncate(self._file, end)
            os.fsync(self._file)
            if new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise unwritable(self.path, error) from error
        return lines

    def append(self, kind: str, **facts: Any) -> Line:
        """Add a line; it is on the disk when this returns."""
        assert self._file is not None, "open comes first"
        line = json.loads(encode_line({"kind": kind, **facts}))
        check = _check(line, self._last)
        try:
            raw = encode_line({**line, CHECK: check})
            if os.write(self._file, raw) != len(raw):
                raise ShoalError(f"{self.path} cannot be written to its end: make room, then go on with --resume")
            os.fsync(self._file)
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._last = check
        return line

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def expanded(lines: Iterable[Line]) -> Iterator[Line]:
    """All lines, each with the decisions that it holds before it."""
    for line in lines:
        yield from line.get("decisions", ())
        yield line


def _check(line: Line, before: str) -> str:
    return f"{zlib.crc32(encode_line(line), zlib.crc32(before.encode())):08x}"


def _proven(raw: bytes, before: str) -> Line | None:
    """The line, with its checksum; None: it is not what was written."""
    try:
        line = json.loads(raw)
        check = line[CHECK]
        bare = {key: value for key, value in line.items() if key != CHECK}
        return line if check == _check(bare, before) and isinstance(line["kind"], str) else None
    except (ValueError, TypeError, KeyError):
        return None
