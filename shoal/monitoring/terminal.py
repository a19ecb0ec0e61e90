"""What the person at the terminal sees of a training run: a live panel, or plain lines where nothing can be redrawn."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from shoal.base.files import as_typed
from shoal.monitoring.progress import Progress, elapsed_text, shown
from shoal.monitoring.shares import LABELS, busy, percent
from shoal.monitoring.sinks import Row

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.api.experiment import StopConfig

_SECONDS_BETWEEN_LINES = 2.0


class _Face(Protocol):
    def write(self, row: Row) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self, summary: str) -> None: ...


class TerminalView:
    """A sink that shows rows as they come: live on a terminal (or on the `console` given), else in plain lines.

    A terminal that goes away does not end the run: all of it is in the run folder.
    """

    def __init__(self, title: str, folder: Path, stop: StopConfig, *, console: Console | None = None) -> None:
        self._face: _Face | None = None
        folder = as_typed(folder)
        with self._while_there():
            if console is None and not _can_redraw(sys.stdout):
                self._face = PlainLines(title, folder, stop, sys.stdout)
            else:
                from shoal.monitoring.live_panel import LivePanel

                self._face = LivePanel(title, folder, stop, console)

    def write(self, row: Row) -> None:
        """Show a row, now or with the next."""
        with self._while_there():
            if self._face is not None:
                self._face.write(row)

    def note(self, text: str) -> None:
        """A line that stays."""
        with self._while_there():
            if self._face is not None:
                self._face.note(text)

    def close(self, summary: str = "") -> None:
        """Show the last row and the summary, and leave the terminal as it was. Again: nothing happens."""
        with self._while_there():
            if self._face is not None:
                self._face.close(summary)
        self._face = None

    @contextlib.contextmanager
    def _while_there(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._face = None


def _can_redraw(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


class PlainLines:
    """A line every two seconds at most, and always the first and the last row."""

    def __init__(
        self, title: str, folder: Path, stop: StopConfig, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress = Progress(stop, clock)
        self._stream, self._clock = stream, clock
        self._printed_at = float("-inf")
        self._waiting = False
        self.note(f"{title} -> {folder}")

    def write(self, row: Row) -> None:
        """Print the row if it is time."""
        self._progress.add(row)
        self._waiting = self._clock() - self._printed_at < _SECONDS_BETWEEN_LINES
        if not self._waiting:
            self._print_row()

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, file=self._stream, flush=True)

    def close(self, summary: str) -> None:
        """Print the last row, if it was held back, and the summary."""
        if self._waiting:
            self._print_row()
        if summary:
            self.note(summary)

    def _print_row(self) -> None:
        self._printed_at, self._waiting = self._clock(), False
        self.note(plain_line(self._progress))


def plain_line(progress: Progress) -> str:
    """`   20,480 steps | return  143.2 | len 143 | 12,345 steps/s | 1.7 s | left ~8 s | busy: actors 93 %, trainer 41 %`."""
    parts = [
        f"{shown(progress.number('step'), ',.0f'):>9} steps",
        f"return {shown(progress.number('rollout/ep_rew_mean'), ',.1f'):>6}",
        f"len {shown(progress.number('rollout/ep_len_mean'), ',.0f'):>3}",
        f"{shown(progress.number('time/fps'), ',.0f'):>6} steps/s",
        elapsed_text(progress.elapsed),
        f"left {progress.left_text()}",
    ]
    if evaluated := progress.evaluated_text():
        parts.append(f"evaluated {evaluated}")
    if shares := progress.shares():
        busy_ = [f"{LABELS.get(kind, kind)} {percent(busy(states))}" for kind, states in shares.items()]
        parts.append(f"busy: {', '.join(busy_)}")
    return " | ".join(parts)
