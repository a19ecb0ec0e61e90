"""A bar as wide as its place that shows the shares of a worker's time, one colour per state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

from shoal.monitoring import palette
from shoal.monitoring.shares import STATES

COLOURS = {
    "worked": palette.WORK, "inference": palette.DECIDE, "waited_input": palette.WAIT, "waited_slot": palette.REST,
}  # fmt: skip
_MARKS = {"worked": "━=", "inference": "━=", "waited_input": "─-", "waited_slot": "─-"}
"""On a terminal with Unicode and on one without: thick is work, thin is waiting, colours or not."""


class ShareBar:
    """Draws `shares`: state -> share."""

    def __init__(self, shares: Mapping[str, float | None]) -> None:
        self._shares = {state: shares.get(state) or 0.0 for state in STATES}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = not options.encoding.startswith("utf")
        for state, length in self._lengths(options.max_width):
            yield Segment(_MARKS[state][plain] * length, Style.parse(COLOURS[state]))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, options.max_width)

    def _lengths(self, width: int) -> Iterator[tuple[str, int]]:
        """Rounded at the borders between states, so that all of them add up."""
        begin = total = 0.0
        for state, share in self._shares.items():
            total += share
            end = float(round(min(total, 1.0) * width))
            yield state, int(end - begin)
            begin = end
