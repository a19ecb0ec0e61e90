"""Where a process begins that a holder has forked. Light: the holder imports it, and neither torch nor what a process is."""

from __future__ import annotations

from multiprocessing.connection import Connection

LIFE = "shoal.launchers.ray.process"
"""What the fork server has imported by then."""


def enter(posting: bytes, line: Connection, address: str) -> None:
    """Begin a life."""
    from shoal.launchers.ray.process import live

    live(posting, line, address)
