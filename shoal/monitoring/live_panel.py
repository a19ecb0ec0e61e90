"""The live panel of a training run, redrawn in place with rich."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shoal.monitoring import palette
from shoal.monitoring.league_text import forgotten_text, league_text
from shoal.monitoring.progress import (
    RECENT,
    RETURN,
    Progress,
    elapsed_text,
    policy_return,
    return_text,
    shown,
    sparkline,
)
from shoal.monitoring.share_bar import COLOURS, ShareBar
from shoal.monitoring.shares import LABELS, WAITS_FOR, busy, percent
from shoal.monitoring.sinks import Row
from shoal.monitoring.usage import Usage, UsageMeter

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shoal.monitoring.run_facts import RunFacts

_SECONDS_BETWEEN_ROWS = 0.5  # one drawing costs about 5 ms of the training process
_ROOMY, _WIDEST = 75, 100
_STATES = {
    "running": palette.GOOD, "reached": f"bold {palette.GOOD}", "starting": "dim", "interrupted": palette.BAD,
}  # fmt: skip
"""Words for what a run does, and their colours; any other word has that of waiting."""
_AROUND = 3
"""Lines of a terminal that are not the panel's: its frame, and the cursor."""
_MOST = 5
"""Metrics of an algorithm that names none, and numbers of the environment's own."""


class LivePanel:
    """Redrawn when a row arrives, twice a second at most, and once a second for the clock's sake."""

    def __init__(self, facts: RunFacts, console: Console | None = None) -> None:
        self._facts = facts
        self._console = console or Console(highlight=False)
        self._progress = Progress(facts.stop)
        self._meter = UsageMeter() if facts.here else None
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

    def show(self, title: str, rows: list[dict[str, Any]]) -> None:
        """With the next drawing."""
        with self._lock:
            self._progress.tables[title] = rows

    def state(self, word: str, reason: str | None) -> None:
        """Show it at once."""
        with self._lock:
            self._progress.state, self._progress.reason = word, reason
        self._live.refresh()

    def close(self, summary: str) -> None:
        """Draw once more, give the terminal back, say the summary."""
        self._live.stop()
        atexit.unregister(self._live.stop)
        if summary:
            self.note(summary)

    def _draw(self) -> RenderableType:
        with self._lock:
            return draw(self._progress, self._facts, self._console, self._meter.usage() if self._meter else None)


def draw(progress: Progress, facts: RunFacts, console: Console, usage: Usage | None = None) -> Panel:
    """The panel for one moment."""
    width = min(console.width, _WIDEST)
    marks = "▁▂▃▄▅▆▇█" if console.encoding.startswith("utf") else "_.-=*#"
    room = console.height - _AROUND
    parts = _parts(progress, facts, width, marks, usage, None)
    if _lines(parts) > room and (many := len(progress.policies)) > 1:
        over = _lines(parts) - room
        parts = _parts(progress, facts, width, marks, usage, max(1, many - over // 2 - 1))
    spaced = _lines(parts) + len(parts) - 1 <= room
    body = [each for part in parts for each in ([Text(), *part] if spaced and part is not parts[0] else part)]
    title = Text.assemble((facts.title, "bold"), "  ", (progress.state, _STATES.get(progress.state, palette.WAIT)))
    return Panel(
        Group(*body), title=title, title_align="left", subtitle=Text(str(facts.folder), "dim"),
        subtitle_align="left", border_style=palette.WORK, width=width, padding=(0, 1),
    )  # fmt: skip


def _parts(
    progress: Progress, facts: RunFacts, width: int, marks: str, usage: Usage | None, most: int | None
) -> list[list[RenderableType]]:
    """From top to bottom; `most`: of so many policies, where there is no room for all."""
    counts: list[RenderableType] = [_return_table(progress, width, marks, most), _counts(progress, usage)]
    if faults := _faults(progress):
        counts.append(faults)
    if text := progress.evaluated_text():
        best = progress.best_text()
        counts.append(_fact("eval", f"{text}, {best}" if best else text))
    if won := progress.won:
        games = [
            f"{name} {100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
            for name, (share, low, high) in won.items()
        ]
        counts.append(_fact("won", f"against {', '.join(games)}"))
    if progress.league:
        counts.append(_fact("league", league_text(progress.league)))
        if alarm := forgotten_text(progress.league):
            counts.append(Text.assemble((f"{'':<8}", "dim"), (alarm, palette.BAD)))
    parts: list[list[RenderableType]] = [[_bar(progress)], counts]
    if metrics := list(_metrics(progress, facts, most)):
        parts.append([*metrics])
    if own := _own(progress):
        parts.append([own])
    parts += [[rows_table(title, rows)] for title, rows in progress.tables.items() if rows]
    if shares := progress.shares():
        parts.append([_shares(shares, "waits for " if width >= _ROOMY else "")])
    return parts


def _lines(parts: list[list[RenderableType]]) -> int:
    return sum(each.row_count if isinstance(each, Table) else 1 for part in parts for each in part)


def _bar(progress: Progress) -> RenderableType:
    """How far it is; of a run that ended, why."""
    if progress.reason is not None:
        return Text(progress.reason, _STATES.get(progress.state, palette.WAIT))
    rule = progress.nearest()
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(
        ProgressBar(total=1.0, completed=rule.fraction, complete_style=palette.WORK, finished_style=palette.GOOD),
        Text(f"{rule.fraction:4.0%} of {rule.name}", "bold"),
        Text(f"left {progress.left_text()}"),
    )
    return line


# ---------------------------------------------------------------- returns and counts


def _return_table(progress: Progress, width: int, marks: str, most: int | None) -> Table:
    rows = list(_returns(progress, most, roomy=width >= _ROOMY))
    label, beside = max(8, *(len(row[0]) for row in rows)), max(12, *(len(row[2]) for row in rows))
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", min_width=8, max_width=max(8, width // 4), no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", min_width=9)
    table.add_column(style="dim", min_width=12, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="crop")
    room = width - 16 - min(label, max(8, width // 4)) - beside
    if len(progress.policies) > 1:
        table.add_row("policy", Text("return", "dim"))
    for name, value, goal, history in rows:
        line = Text(sparkline(history, room, marks), palette.GOOD)
        table.add_row(name, Text(value, f"bold {palette.GOOD}"), goal, line)
    if most is not None and (more := len(progress.policies) - most) > 0:
        table.add_row(f"and {more} more")
    return table


def _counts(progress: Progress, usage: Usage | None) -> Table:
    stop = progress.stop
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", min_width=8)
    table.add_column(justify="right", min_width=9)
    table.add_column(style="dim", min_width=12)
    table.add_column(no_wrap=True, overflow="crop")
    speed = f"{shown(progress.number('time/fps'), ',.0f'):>7} steps/s"
    table.add_row("steps", shown(progress.number("step"), ",.0f"), _goal(stop.steps), _fact("speed", speed))
    elapsed = f"{elapsed_text(progress.elapsed):>7}"
    table.add_row("updates", shown(progress.number("update"), ",.0f"), _goal(stop.updates), _fact("elapsed", elapsed))
    length = f"length {shown(progress.number('rollout/ep_len_mean'), ',.0f')}"
    cpu, memory = _used(usage)
    table.add_row("episodes", shown(progress.number("rollout/episodes"), ",.0f"), length, cpu)
    if progress.lag is not None or usage is not None:
        table.add_row("lag", shown(progress.lag, ",.0f"), "versions", memory)
    return table


def _faults(progress: Progress) -> Text | None:
    """What died and what was dropped, if anything."""
    restarts, dropped = progress.restarts, progress.dropped
    said = [f"{restarts:,} restart{'s' * (restarts != 1)}"] if restarts else []
    said += [f"{dropped:,} rows dropped"] if dropped else []
    return Text.assemble((f"{'faults':<8}", "dim"), (", ".join(said), palette.BAD)) if said else None


def _returns(progress: Progress, most: int | None, *, roomy: bool) -> Iterator[tuple[str, str, str, list[float]]]:
    """Name, value, what it is held against, history: of each policy, since the returns of rivals do not add up.

    A goal is one for the sum over all that learn, so where there is one, or one policy, the sum is shown; of a team, what each
    agent earns as well. Training promises it by its last episodes, which are fewer than those of the other mean.
    """
    policies, goal = progress.policies, progress.stop.return_
    recent = RECENT in progress.row
    if len(policies) < 2 or goal is not None:
        random = "baseline/random_team_return" if len(policies) == 1 else ""
        yield _return(progress, "return", RETURN, "" if recent else _goal(goal), random, roomy)
    if len(policies) == 1:
        yield _return(progress, "per agent", policy_return(policies[0]), "", "baseline/random_agent_return", roomy)
    if recent:
        yield _return(progress, "last 20", RECENT, _goal(goal), "", roomy)
    for policy in policies[:most] if len(policies) > 1 else []:
        yield _return(progress, policy, policy_return(policy), "", f"baseline/{policy}/random_agent_return", roomy)


def _return(
    progress: Progress, name: str, key: str, goal: str, random: str, roomy: bool
) -> tuple[str, str, str, list[float]]:
    by_chance = progress.number(random)
    beside = [goal] if goal else []
    if by_chance is not None:
        beside.append(f"random {return_text(by_chance)}")
    if key in progress.best and roomy:
        beside.append(f"best {return_text(progress.best[key])}")
    return name, return_text(progress.number(key)), ", ".join(beside), progress.history(key)


def _goal(number: float | None) -> str:
    return "" if number is None else f"of {number:,.10g}"


def _fact(label: str, text: str) -> Text:
    return Text.assemble((f"{label:<8}", "dim"), text)


def _used(usage: Usage | None) -> tuple[Text, Text]:
    """Cores, and memory."""
    if usage is None:
        return Text(), Text()
    cores = len(os.sched_getaffinity(0))
    memory = f"{usage.nbytes / 2**20:7,.0f} MB"
    return _fact("cpu", f"{usage.cores:7.1f} of {cores} cores"), _fact("memory", memory)


# ---------------------------------------------------------------- metrics


def _metrics(progress: Progress, facts: RunFacts, most: int | None) -> Iterator[Table]:
    """The few that each algorithm names: a row per policy where several learn, a table per set of names."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for policy in progress.learners[:most] or [""]:
        at = f"train/{policy}/" if policy else "train/"
        known = [name.removeprefix(at) for name in progress.learned if name.startswith(at)]
        wanted = facts.of(policy).metrics or tuple(known[:_MOST])
        if names := tuple(name for name in wanted if name in known):
            tables.setdefault(names, []).append(policy)
    for names, policies in tables.items():
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(style="dim", min_width=8 if any(policies) else 0, no_wrap=True, overflow="ellipsis")
        for _ in names:
            table.add_column(justify="right", no_wrap=True, overflow="ellipsis")
        table.add_row("", *(Text(name, "dim") for name in names))
        for policy in policies:
            at = f"train/{policy}/" if policy else "train/"
            table.add_row(policy, *(format(progress.learned[at + name], ",.4g") for name in names))
        yield table


def _own(progress: Progress) -> Text | None:
    """What the environment put into `info["metrics"]`."""
    at = "rollout/metrics/"
    names = [name for name in progress.row if name.startswith(at)]
    if not names:
        return None
    parts = [f"{name.removeprefix(at)} {shown(progress.number(name), ',.4g')}" for name in names[:_MOST]]
    more = [f"and {len(names) - _MOST} more"] if len(names) > _MOST else []
    return _fact("info", ", ".join([*parts, *more]))


def _shares(shares: dict[str, dict[str, float]], waits_for: str) -> Table:
    """A row per kind of worker: what it did, and what it waited for."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim", min_width=8, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1)
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True, overflow="ellipsis")
    for kind, states in shares.items():
        waits = [
            Text(f"{percent(states.get(state))} {waits_for}{what}", COLOURS[state])
            for state, what in WAITS_FOR.get(kind, WAITS_FOR[""]).items()
        ]
        table.add_row(LABELS.get(kind, kind), ShareBar(states), f"{percent(busy(states))} busy", *waits)
    return table


def rows_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """A table of a worker's own: a column per key, the first under its title."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    keys = list(rows[0])
    for place, key in enumerate(keys):
        table.add_column(title if place == 0 else key, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_cell(row.get(key))) for key in keys))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:,.1f}" if isinstance(value, float) else str(value)
