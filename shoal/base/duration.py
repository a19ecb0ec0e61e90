"""Spans of time as people write them: `30s`, `5m`, `2h`, `3d`, or a number of seconds."""

from __future__ import annotations

import re
from typing import Any

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")


def parse_duration(value: Any) -> float:
    """Seconds. Raises ValueError with the remedy in its text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a span of time as 30s, 5m, 2h or 3d, or as a number of seconds")
    return float(match[1]) * _UNITS[match[2]]


def format_duration(seconds: float) -> str:
    """`42s`, `3m 05s`, `2h 10m`, `3d 0h`: two units at most."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"
