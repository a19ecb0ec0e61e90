"""On the path of every process of a chaos run: while a file lies where SHOAL_CHAOS_FSYNC says, the disk is slow."""

from __future__ import annotations

import os
import time

SLOW = 0.5
"""Seconds that a write takes to reach such a disk."""

_fsync, _order = os.fsync, os.environ.get("SHOAL_CHAOS_FSYNC")


def _slow(handle: int) -> None:
    if os.path.exists(str(_order)):
        time.sleep(SLOW)
    _fsync(handle)


if _order:
    os.fsync = _slow  # type: ignore[assignment]
