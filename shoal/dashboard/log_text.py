"""The end of a log, or the lines of it that hold a word."""

from __future__ import annotations

from typing import Any

from shoal.dashboard.below import Root

TAIL = 64 << 10
"""Bytes that are shown of a log."""
SEARCHED = 16 << 20
"""Bytes from its end that are searched."""
LINES = 500
WIDEST = 2000


def read_log(root: Root, parts: list[str], search: str) -> dict[str, Any]:
    """Lines with their numbers from the end, oldest first; `cut`: there is more before."""
    with root.file(*parts) as file:
        size = file.seek(0, 2)
        begin = max(0, size - (SEARCHED if search else TAIL))
        file.seek(begin)
        lines = file.read(size - begin).decode(errors="replace").splitlines()
    if begin:
        lines = lines[1:]
    word = search.lower()
    found = [line for line in lines if word in line.lower()]
    return {"lines": [line[:WIDEST] for line in found[-LINES:]], "cut": begin > 0 or len(found) > LINES, "size": size}
