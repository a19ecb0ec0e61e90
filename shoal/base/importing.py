"""Importing much at once: for commands and for processes of a run, not inside a user's own program, whose collector is its own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import without the garbage collector, and keep what came out of its sight for good.

    Modules live as long as the process. While torch is imported the collector would look through them again and again, in a run now
    and then, and at exit once more: together about a quarter of what the import costs.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
