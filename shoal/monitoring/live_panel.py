"""The live panel of a training run, redrawn in place with rich."""

from __future__ import annotations

import atexit
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shoal.monitoring.progress import Progress, elapsed_text, shown, sparkline
from shoal.monitoring.share_bar import COLOURS, ShareBar
from shoal.monitoring.shares import LABELS, busy, percent
from shoal.monitoring.sinks import Row

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shoal.api.experiment import StopConfig

_SECONDS_BETWEEN_ROWS = 0.5  # one drawing costs about 5 ms of the training process
_WIDEST = 88
_LOSSES = {
    "policy loss": "train/policy_loss",
    "value loss": "train/value_loss",
    "entropy loss": "train/entropy_loss",
    "approx. KL": "train/approx_kl",
    "expl. var.": "train/explained_variance",
}


class LivePanel:
    """Redrawn when a row arrives, twice a second at most, and once a second for the clock's sake."""

    def __init__(self, title: str, folder: Path, stop: StopConfig, console: Console | None = None) -> None:
        self._title, self._folder = title, folder
        self._console = console or Console(highlight=False)
        self._progress = Progress(stop)
        self._lock = threading.Lock()  # rich redraws from a thread of its own
        self._drawn_at = float("-inf")
        self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=1)
        atexit.register(self._live.stop)  # the cursor comes back even if nobody closes us
        self._live.start(refresh=True)

    def write(self, row: Row) -> None:
        """Take the row, and draw it if it is time."""
        with self._lock:
            self._progress.add(row)
        now = time.monotonic()
        if now - self._drawn_at >= _SECONDS_BETWEEN_ROWS:
            self._drawn_at = now
            self._live.refresh()

    def note(self, text: str) -> None:
        """A line above the panel."""
        self._console.print(text, markup=False, highlight=False)

    def close(self, summary: str) -> None:
        """Draw once more, give the terminal back, say the summary."""
        self._live.stop()
        atexit.unregister(self._live.stop)
        if summary:
            self.note(summary)

    def _draw(self) -> RenderableType:
        with self._lock:
            return draw(self._progress, self._title, self._folder, self._console)


def draw(progress: Progress, title: str, folder: Path, console: Console) -> Panel:
    """The panel for one moment."""
    width = min(console.width, _WIDEST)
    body: list[RenderableType] = [_bar(progress), Text(), _facts(progress, width, console), Text(), _losses(progress)]
    if shares := progress.shares():
        body += [Text(), _shares(shares)]
    return Panel(
        Group(*body), title=Text(title, "bold"), title_align="left", subtitle=Text(str(folder), "dim"),
        subtitle_align="left", border_style="cyan", width=width, padding=(0, 1),
    )  # fmt: skip


def _bar(progress: Progress) -> Table:
    rule = progress.nearest()
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(
        ProgressBar(total=1.0, completed=rule.fraction, complete_style="cyan", finished_style="green"),
        Text(f"{rule.fraction:4.0%} of {rule.name}", "bold"),
        Text(f"left {progress.left_text()}"),
    )
    return line


def _facts(progress: Progress, width: int, console: Console) -> Table:
    marks = "▁▂▃▄▅▆▇█" if console.encoding.startswith("utf") else "_.-=*#"
    stop = progress.stop
    facts = Table.grid(padding=(0, 1))
    facts.add_column(style="dim", min_width=8)
    facts.add_column(justify="right", min_width=9)
    facts.add_column(style="dim", min_width=12)
    facts.add_column(no_wrap=True, overflow="crop")
    history = Text(sparkline(progress.returns, width - 39, marks), "green")
    returns = Text(shown(progress.number("rollout/ep_rew_mean"), ",.1f"), "bold green")
    facts.add_row("return", returns, _goal(stop.return_), history)
    speed = f"{shown(progress.number('time/fps'), ',.0f'):>7} steps/s"
    facts.add_row("steps", shown(progress.number("step"), ",.0f"), _goal(stop.steps), _fact("speed", speed))
    elapsed = f"{elapsed_text(progress.elapsed):>7}"
    facts.add_row("updates", shown(progress.number("update"), ",.0f"), _goal(stop.updates), _fact("elapsed", elapsed))
    length = f"length {shown(progress.number('rollout/ep_len_mean'), ',.0f')}"
    facts.add_row("episodes", shown(progress.number("rollout/episodes"), ",.0f"), length, _evaluated(progress))
    return facts


def _evaluated(progress: Progress) -> Text:
    text = progress.evaluated_text()
    return _fact("eval", text) if text else Text()


def _goal(number: float | None) -> str:
    return "" if number is None else f"of {number:,.10g}"


def _fact(label: str, text: str) -> Text:
    return Text.assemble((f"{label:<8}", "dim"), text)


def _losses(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    for _ in _LOSSES:
        table.add_column(justify="right", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_row(*(Text(label, "dim") for label in _LOSSES))
    table.add_row(*(shown(progress.number(key), ",.4g") for key in _LOSSES.values()))
    return table


def _shares(shares: dict[str, dict[str, float]]) -> Table:
    """A row per kind of worker: what it did, and what it waited for."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim", min_width=8, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1)
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True, overflow="ellipsis")
    for kind, states in shares.items():
        waits = [
            Text(f"{percent(states.get(state))} {state.removeprefix('waited_')}", COLOURS[state])
            for state in ("waited_input", "waited_slot")
        ]
        table.add_row(LABELS.get(kind, kind), ShareBar(states), f"{percent(busy(states))} busy", *waits)
    return table
