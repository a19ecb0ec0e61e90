"""Closing what may fail or hang there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


def close_all(things: Iterable[Any]) -> None:
    """Close each, also where another fails: its error is raised in the end."""
    with ExitStack() as stack:
        for thing in things:
            stack.callback(thing.close)


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """TimeoutError in what takes longer, and again a tenth of that later if there is more which hangs.

    Only in the main thread, which alone can be interrupted: in others it takes its time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, interrupt)
    rest, interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 10)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, rest, interval)
        signal.signal(signal.SIGALRM, handler)
