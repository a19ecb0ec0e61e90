"""What a game prints, kept within bounds: a stream of bytes in, a file of limited size and the last lines out."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import IO

from shoal.base.files import plain_file

TAIL = 8192
"""Bytes of the end that are remembered."""
LINES, WIDTH = 3, 400
"""What an error shows of them."""


class CappedLog:
    """Copies a pipe into `path`, in a thread. What was written before the last half of `limit` is forgotten.

    The older half lies in a second file, `<path>.old`. Without a path only the end is remembered.
    """

    def __init__(self, stream: IO[bytes], path: Path | None, limit: int) -> None:
        self._stream, self._path, self._half = stream, path, max(1, limit // 2)
        self._end = b""
        self._thread = threading.Thread(target=self._copy, name="game log", daemon=True)
        self._thread.start()

    def tail(self) -> str:
        """The last lines as one, for an error."""
        self._thread.join(0.2)  # who has ended may have printed why
        lines = [line.strip() for line in self._end.decode(errors="replace").splitlines() if line.strip()]
        text = " | ".join(lines[-LINES:])
        return text if len(text) <= WIDTH else "..." + text[-WIDTH:]

    def close(self) -> None:
        """Wait for what is still on its way."""
        self._thread.join(1.0)

    def _copy(self) -> None:
        """Whatever becomes of the file: a game whose pipe is full would stand still."""
        file, size = self._open(), 0
        with self._stream:
            while data := os.read(self._stream.fileno(), min(1 << 16, self._half)):
                self._end = (self._end + data)[-TAIL:]
                if file is None or self._path is None:
                    continue
                with contextlib.suppress(OSError):  # a full disk
                    if size + len(data) > self._half:
                        file.close()
                        os.replace(self._path, f"{self._path}.old")
                        file, size = self._open(), 0
                    if file is not None:
                        file.write(data)
                        size += len(data)
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _open(self) -> IO[bytes] | None:
        if self._path is None:
            return None
        try:
            return open(self._path, "wb", buffering=0, opener=plain_file)
        except OSError:
            return None
