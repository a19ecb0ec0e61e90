"""Files of JSON lines that survive a crash: one object per line, appended whole; a torn end is cut off."""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from shoal.base.errors import ShoalError
from shoal.base.files import plain_file, write_atomic

LONGEST = 16 << 20
"""Bytes of a line; what has more in one is no file of ours."""


def encode_line(row: dict[str, Any]) -> bytes:
    """One line. Non-finite numbers become null: JSON has no word for them, and strict readers refuse Python's."""
    try:
        text = json.dumps(row, allow_nan=False, default=_plain)
    except ValueError:
        text = json.dumps(_finite(row), allow_nan=False, default=_plain)
    return f"{text}\n".encode()


def _plain(value: Any) -> Any:
    """Numpy numbers as Python's own, everything else as its text."""
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, Real) and not math.isfinite(value) else value


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Add one line in one write, so that several processes may append to one file."""
    try:
        handle = plain_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(handle, encode_line(row))
        finally:
            os.close(handle)
    except OSError as error:
        raise ShoalError(f"{path} cannot be written ({error.strerror}): make room, or remove what is there") from error


def mend(path: Path) -> None:
    """Make `path` end with a whole line. Only for whoever is the one writer of the file."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with open(path, "rb+", opener=plain_file) as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            end = view.rfind(b"\n") + 1
            tail = view[end:]
        if _parse(tail) is not None:  # whole but for its line end
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(end)


def drop_later(path: Path, step: int) -> None:
    """Forget rows beyond `step`: a run resumed there will write them again."""
    if not path.exists():
        return
    with open(path, "rb", opener=plain_file) as file:
        lines = file.read().splitlines(keepends=True)
    kept = [line for line in lines if (row := _parse(line)) is not None and row.get("step", 0) <= step]
    if len(kept) < len(lines):
        write_atomic(path, b"".join(kept))


def newest_first(path: Path, block: int = 65536) -> Iterator[dict[str, Any]]:
    """The rows from the last to the first, read only as far as asked; a torn end is passed over, a missing file is empty."""
    try:
        file = open(path, "rb", opener=plain_file)  # noqa: SIM115
    except FileNotFoundError:
        return
    except OSError as error:
        raise ShoalError(f"{path} cannot be read ({error.strerror}): restore it or remove it") from None
    with file:
        end, rest = file.seek(0, os.SEEK_END), b""
        while end > 0:
            begin = max(0, end - block)
            file.seek(begin)
            first, *lines = (file.read(end - begin) + rest).split(b"\n")
            lines, rest, end = (lines, first, begin) if begin else ([first, *lines], b"", 0)
            if len(rest) > LONGEST:
                raise ShoalError(f"{path} has a line of more than {LONGEST >> 20} MB: restore it or remove it")
            yield from (row for line in reversed(lines) if (row := _parse(line)) is not None)


def read_on(path: Path, offset: int, block: int = 1 << 20) -> tuple[list[dict[str, Any]], int]:
    """Whole lines from a byte of the file on, some of them if they are many, and the byte to go on from."""
    try:
        with open(path, "rb", opener=plain_file) as file:
            file.seek(offset)
            data = file.read(block)
            while data and b"\n" not in data and len(data) < LONGEST and (more := file.read(block)):
                data += more
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return [row for line in data[:end].split(b"\n") if (row := _parse(line)) is not None], offset + end


def in_order(path: Path) -> list[dict[str, Any]]:
    """The rows of numbers as they stand, oldest first: where `update` or `step` goes back, what was written later holds."""
    rows: list[dict[str, Any]] = []
    update, step = math.inf, math.inf
    for row in newest_first(path):
        if row.get("update", math.inf) < update and row.get("step", math.inf) <= step:
            update, step = row["update"], row["step"]
            rows.append(row)
    return rows[::-1]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
