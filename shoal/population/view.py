"""A population for people: a table that stays in its place on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from shoal.base.duration import format_duration
from shoal.monitoring import palette
from shoal.population.state import OVER

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from shoal.population.population import Population

EVERY, OFTEN = 5.0, 0.5
"""Seconds between two lines, and between two looks of the table."""
SHOWN = 16
"""Members in the table; of more, those that are in slots and the best."""
STATES = {"running": palette.GOOD, "waiting": palette.WAIT, "paused": palette.WAIT, "failed": palette.BAD}


class PopulationView:
    """While entered, it shows; `quiet`: nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._shown = quiet, 0.0
        self._live: Live | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = self._stack.enter_context(
                Live(console=Console(stderr=True, highlight=False), auto_refresh=False, transient=True)
            )
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def tell(self, text: str) -> None:
        """A line that stays."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def show(self, population: Population) -> None:
        """How all stand, as often as somebody can read it."""
        now = time.monotonic()
        if self._quiet or now - self._shown < (EVERY if self._live is None else OFTEN):
            return
        self._shown = now
        document = population.status()
        if self._live is None:
            self.tell(one_line(document))
        else:
            self._live.update(table(document, SHOWN), refresh=True)


def one_line(document: dict[str, Any]) -> str:
    """`3 of 10 ended | 2 in slots, 5 wait | 120,000 steps | best lr-0.001-seed-2 480.2 | 1m 20s`."""
    members = document["members"]
    states = [member["state"] for member in members]
    over = sum(state in OVER for state in states)
    scored = [member for member in members if member["score"] is not None]
    best = max(scored, key=lambda member: member["score"], default=None)
    words = [
        f"{over} of {len(members)} ended",
        f"{states.count('running')} in slots, {states.count('waiting')} wait",
        f"{document['steps']:,} steps{spent(document)}",
    ]
    if best is not None:
        words.append(f"best {best['member']} {best['score']:,.1f}")
    return " | ".join([*words, format_duration(document["elapsed"])])


def spent(document: dict[str, Any]) -> str:
    """` of 1,000,000`, where there is a budget of steps."""
    budget = document["budget"].get("steps")
    return "" if budget is None else f" of {budget:,}"


def table(document: dict[str, Any], most: int) -> Table:
    """A row per member."""
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, caption=one_line(document))
    found.add_column("member", no_wrap=True)
    for title in ("state", "slot"):
        found.add_column(title, no_wrap=True)
    for title in ("steps", "return", "score"):
        found.add_column(title, justify="right", no_wrap=True)
    members = document["members"]
    if len(members) > most:
        first = sorted(members, key=lambda one: (one["state"] != "running", -(one["score"] or -1e300)))[:most]
        members = [member for member in members if member in first]
    for member in members:
        state = member["state"]
        found.add_row(
            Text(member["member"]), Text(state, STATES.get(state, "")), _place(member), f"{member['steps']:,}",
            _number(member.get("return")), _number(member["score"]),
        )  # fmt: skip
    return found


def _place(member: dict[str, Any]) -> str:
    """`3`, or `3 on 10.0.0.2`."""
    machine = f" on {member['node']}" if member.get("node") else ""
    return f"{member.get('slot', '-')}{machine}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
