"""The journal of a league: every match as a record of fixed width with a checksum, and every decision as a line with its reason.

Both only grow, but for a resumed run, which goes on where its checkpoint was written. What a crash left half-written at the end is
cut off. Everything else that is known of a league is computed from these files and the members' parameters beside them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from shoal.api.env import Array
from shoal.api.league import MATCH
from shoal.base.errors import ShoalError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.files import make_folder, plain_file
from shoal.monitoring.jsonl import append_line, mend, newest_first

HEADER = b"shoal matches 1\n"
RECORD = np.dtype([("match", MATCH), ("check", "<u4")])
"""What stands in the file: 40 bytes a match."""
_WORDS = MATCH.itemsize // 4
_WEIGHTS = np.arange(1, 2 * _WORDS + 1, 2, dtype=np.uint32) * np.uint32(0x9E3779B1)


def checks_of(matches: Array) -> Array:
    """A number for each that a changed bit changes."""
    words = np.ascontiguousarray(matches).view(np.uint32).reshape(-1, _WORDS)
    sums: Array = (words * _WEIGHTS).sum(axis=1, dtype=np.uint32) ^ np.uint32(0x5A5A5A5A)
    return sums


class Journal:
    """The files of one league. One writer, any number of readers. `faults`: what strikes before a write, in tests."""

    def __init__(self, folder: Path, faults: Faults = NO_FAULTS) -> None:
        self.folder, self._faults, self._writes = folder, faults, 0
        self._matches, self._decisions = folder / "matches.bin", folder / "decisions.jsonl"
        self._file: int | None = None

    # ---------------------------------------------------------------- reading

    def matches(self) -> Array:
        """All that are whole, in their order."""
        try:
            with open(self._matches, "rb", opener=plain_file) as file:
                raw = file.read()
        except FileNotFoundError:
            return np.empty(0, MATCH)
        if len(raw) < len(HEADER):
            return np.empty(0, MATCH)
        if not raw.startswith(HEADER):
            raise ShoalError(f"{self._matches} is no journal of matches: restore it, or remove it")
        count = (len(raw) - len(HEADER)) // RECORD.itemsize
        records = np.frombuffer(raw, RECORD, count, len(HEADER))
        found = np.ascontiguousarray(records["match"])
        wrong = np.flatnonzero(checks_of(found) != records["check"])
        if not wrong.size:
            return found
        if wrong.size < count - wrong[0]:  # whole ones after it: no crash did that
            raise ShoalError(f"{self._matches} is damaged at match {wrong[0]:,}: restore it, or remove it")
        return found[: wrong[0]]

    def decisions(self) -> list[dict[str, Any]]:
        """All, in their order."""
        return list(newest_first(self._decisions))[::-1]

    # ---------------------------------------------------------------- writing

    def open(self, matches: int | None = None, decisions: int | None = None) -> None:
        """Begin to write: what is torn is cut off, and what lies beyond so many, if they are given."""
        make_folder(self.folder)
        whole = len(self.matches())
        size = len(HEADER) + RECORD.itemsize * (whole if matches is None else min(whole, matches))
        self._file = plain_file(self._matches, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        if os.fstat(self._file).st_size < len(HEADER):
            os.ftruncate(self._file, 0)
            os.write(self._file, HEADER)
        os.ftruncate(self._file, size)
        mend(self._decisions)
        if decisions is not None and self._decisions.exists():
            with open(self._decisions, "rb+", opener=plain_file) as file:
                kept = b"".join(file.read().splitlines(keepends=True)[:decisions])
                file.truncate(len(kept))

    def append(self, matches: Array) -> None:
        """Matches that ended, in one write."""
        assert self._file is not None, "open comes first"
        records = np.empty(len(matches), RECORD)
        records["match"], records["check"] = matches, checks_of(matches)
        raw = records.tobytes()
        self._strike()
        if os.write(self._file, raw) != len(raw):
            raise ShoalError(f"{self._matches} cannot be written to its end: make room, then go on with --resume")

    def decide(self, kind: str, reason: str, **facts: Any) -> dict[str, Any]:
        """A decision, with its reason; the line as it was written."""
        line = {"kind": kind, **facts, "reason": reason}
        self._strike()
        append_line(self._decisions, line)
        return line

    def _strike(self) -> None:
        self._writes += 1
        self._faults.at("write", self._writes)

    def sync(self) -> None:
        """Whatever happens to the machine, what was written is there."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
