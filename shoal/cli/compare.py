"""`shoal compare`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from shoal.cli.output import print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MOST = 8
"""Values of a setting that are shown."""


def run(runs: list[str], *, json: bool) -> None:
    """Read the runs, print the table."""
    from shoal.analysis.comparison import compare
    from shoal.analysis.trials import find_group

    found = [find_group(run) for run in runs]
    for note in (note for _, notes in found for note in notes):
        print(f"shoal: {note}", file=sys.stderr)
    document = compare([group for group, _ in found])
    if json:
        print_json(document)
        return
    from rich.console import Console

    show(document, Console(highlight=False))


def show(document: dict[str, Any], console: Console) -> None:
    """Two tables: what became of each, and in which settings they differ. As wide as needed where there is no terminal."""
    from rich.text import Text

    parts: list[Table | Text] = [_results(document["runs"])]
    if document["differences"]:
        labels = [record["run"] for record in document["runs"]]
        parts += [Text(), _settings(document["differences"], labels)]
    if console.is_terminal:
        console.print(*parts, sep="\n")
        return
    with console.capture() as capture:
        console.width = 10_000
        console.print(*parts, sep="\n")
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _table(first: str, others: list[str], justify: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(first, style="cyan", overflow="fold")
    for title in others:
        table.add_column(title, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def _results(records: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    from shoal.base.duration import format_duration

    table = _table("run", ["seeds", "steps", "time", "steps/s", "final return", "best", "greedy"], "right")
    table.add_column("ended", overflow="fold")
    for record in records:
        speed = record["steps_per_second"]
        table.add_row(
            Text(record["run"]), _seeds(record), f"{record['steps']:,.0f}", format_duration(record["seconds"]),
            "-" if speed is None else f"{speed:,.0f}", _number(record["final_return"]), _number(record["best_return"]),
            _number(record["evaluation"]), Text(_endings(record["ended"])),
        )  # fmt: skip
    return table


def _seeds(record: dict[str, Any]) -> str:
    seeds, trials = len(record["seeds"]), record["trials"]
    return str(seeds) if seeds == trials else f"{seeds} ({trials} runs)"


def _number(value: dict[str, float | None] | None) -> str:
    """`480.2 (470.1 to 490.5)`."""
    if value is None:
        return "-"
    mean, low, high = value["mean"], value["low"], value["high"]
    return f"{mean:,.1f}" if low is None or high is None else f"{mean:,.1f} ({low:,.1f} to {high:,.1f})"


def _endings(counts: dict[str, int]) -> str:
    if list(counts.values()) == [1]:
        return next(iter(counts))
    return ", ".join(f"{count} x {reason}" for reason, count in counts.items())


def _settings(differences: dict[str, list[list[Any]]], labels: list[str]) -> Table:
    from rich.text import Text

    table = _table("setting", labels, "left")
    for key, values in differences.items():
        table.add_row(Text(key), *(Text(_values(each)) for each in values))
    return table


def _values(values: list[Any]) -> str:
    if not values:
        return "-"
    shown = ["null" if value is None else str(value) for value in values[:_MOST]]
    return ", ".join(shown) + (f", ... ({len(values)})" if len(values) > _MOST else "")
