"""What the person at the terminal sees of a training run: a live panel, or plain lines where nothing can be redrawn."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from shoal.monitoring.league_text import forgotten_text, league_text
from shoal.monitoring.progress import RETURN, Progress, elapsed_text, policy_return, return_text, shown
from shoal.monitoring.shares import LABELS, busy, percent
from shoal.monitoring.sinks import Row

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.monitoring.run_facts import RunFacts

_SECONDS_BETWEEN_LINES = 2.0
_SECONDS_BETWEEN_WORDS = 10.0
_WAITS = ("paused", "confirming")


class _Face(Protocol):
    def write(self, row: Row) -> None: ...
    def note(self, text: str) -> None: ...
    def show(self, title: str, rows: list[dict[str, Any]]) -> None: ...
    def state(self, word: str, reason: str | None) -> None: ...
    def close(self, summary: str) -> None: ...


class TerminalView:
    """A sink that shows rows as they come: live on a terminal (or on the `console` given), else in plain lines.

    A terminal that goes away does not end the run: all of it is in the run folder.
    """

    def __init__(self, facts: RunFacts, *, console: Console | None = None) -> None:
        self._face: _Face | None = None
        with self._while_there():
            if console is None and not _can_redraw(sys.stdout):
                self._face = PlainLines(facts, sys.stdout)
            else:
                from shoal.monitoring.live_panel import LivePanel

                self._face = LivePanel(facts, console)

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

    def show(self, title: str, rows: list[dict[str, Any]]) -> None:
        """A table that a worker wants people to see, as it is now."""
        with self._while_there():
            if self._face is not None:
                self._face.show(title, rows)

    def state(self, word: str, reason: str | None = None) -> None:
        """What the run does now, in a word: probing, running, confirming, paused, ...; with a `reason`, that it ended."""
        with self._while_there():
            if self._face is not None:
                self._face.state(word, reason)

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


@contextlib.contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Tell on stderr what is waited for, until it is over; what is yielded takes the next text.

    On a terminal the text stands there and vanishes; elsewhere it becomes a line if it takes long, and again every ten seconds.
    """
    if _can_redraw(sys.stderr):
        from rich.console import Console

        with Console(stderr=True, highlight=False).status(text, refresh_per_second=2) as status:
            yield status.update
        return
    latest, over = [text], threading.Event()

    def tell() -> None:
        pause = _SECONDS_BETWEEN_LINES
        while not over.wait(pause):
            print(latest[0], file=sys.stderr, flush=True)
            pause = _SECONDS_BETWEEN_WORDS

    thread = threading.Thread(target=tell, name="waiting", daemon=True)
    thread.start()
    try:
        yield lambda text: latest.__setitem__(0, text)
    finally:
        over.set()
        thread.join()


def _can_redraw(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


class PlainLines:
    """A line every two seconds at most, and always the first and the last row."""

    def __init__(self, facts: RunFacts, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = Progress(facts.stop, clock)
        self._stream, self._clock = stream, clock
        self._printed_at = float("-inf")
        self._waiting = False
        self.note(f"{facts.title} -> {facts.folder}")

    def write(self, row: Row) -> None:
        """Print the row if it is time."""
        self._progress.add(row)
        self._waiting = self._clock() - self._printed_at < _SECONDS_BETWEEN_LINES
        if not self._waiting:
            self._print_row()

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, file=self._stream, flush=True)

    def show(self, title: str, rows: list[dict[str, Any]]) -> None:
        """For the next line."""
        self._progress.tables[title] = rows

    def state(self, word: str, reason: str | None) -> None:
        """Print what is worth a line: that it waits, and that it goes on."""
        before, self._progress.state = self._progress.state, word
        if word != before and (word in _WAITS or before in _WAITS) and reason is None:
            self.note(word)

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
        _returns(progress),
        f"len {shown(progress.number('rollout/ep_len_mean'), ',.0f'):>3}",
        f"{shown(progress.number('time/fps'), ',.0f'):>6} steps/s",
        elapsed_text(progress.elapsed),
        f"left {progress.left_text()}",
    ]
    if evaluated := progress.evaluated_text():
        parts.append(f"evaluated {evaluated}")
    for title, rows in progress.tables.items():
        parts.append(f"{title}: {', '.join(brief(row) for row in rows) or 'none'}")
    if progress.league:
        parts.append(
            "league: " + "; ".join(filter(None, [league_text(progress.league), forgotten_text(progress.league)]))
        )
    if shares := progress.shares():
        busy_ = [f"{LABELS.get(kind, kind)} {percent(busy(states))}" for kind, states in shares.items()]
        parts.append(f"busy: {', '.join(busy_)}")
    return " | ".join(parts)


def brief(row: dict[str, Any]) -> str:
    """`anna 143.2`, or `anna away`."""
    away = row.get("connected") is False
    return f"{row.get('name', '-')} {'away' if away else return_text(row.get('score'))}"


def _returns(progress: Progress) -> str:
    """`return  143.2`; of a team also that of each agent, beside random play; where several policies play, that of each."""
    policies = progress.policies
    if len(policies) < 2:
        line = f"return {return_text(progress.number(RETURN)):>6}"
        agents = [f", per agent {return_text(progress.number(policy_return(policy)))}" for policy in policies]
        random = progress.number("baseline/random_agent_return")
        return line + "".join(agents) + (f" (random {return_text(random)})" if agents and random is not None else "")
    return ", ".join(f"{policy} {return_text(progress.number(policy_return(policy)))}" for policy in policies)
