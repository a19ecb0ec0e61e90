"""How many rows a batch is padded to: multiples on CPUs, for equal bits; elsewhere a few sizes, for code that is made for one."""

from __future__ import annotations

MULTIPLE, LEAST = 8, 16
"""Batches are padded to a multiple of 8, and to 16 at least: on CPUs a row's last bits would otherwise depend on its company."""


def even_size(rows: int) -> int:
    """The next multiple."""
    return max(LEAST, -(-rows // MULTIPLE) * MULTIPLE)


def fixed_size(rows: int) -> int:
    """The next of a few sizes: 16, 24, ... 64, then four to each doubling, 80, 96, 112, 128, 160, ... So that few graphs serve
    batches of any size; from 64 rows on at most a quarter of them is added."""
    step = max(MULTIPLE, 1 << (max(rows - 1, 0).bit_length() - 3)) if rows > LEAST else MULTIPLE
    return max(LEAST, -(-rows // step) * step)
