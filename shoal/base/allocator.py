"""What the C library does with memory that was freed: by itself it gives large blocks back to the kernel at once."""

from __future__ import annotations

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of `mallopt`."""
KEPT = 1 << 30
"""Bytes that may lie free at the end of the heap."""
LARGEST = 1 << 25
"""Bytes of a block that still lies in the heap: the most that glibc allows."""


@cache
def keep_freed_memory() -> bool:
    """From now on. An update frees what it computed and asks for as much again: the kernel would fill every page with zeros anew,
    a tenth of the time of a wide network. False: this C library has no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_THRESHOLD, LARGEST) and mallopt(M_TRIM_THRESHOLD, KEPT))
