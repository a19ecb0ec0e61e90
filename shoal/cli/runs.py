"""`shoal runs`."""

from __future__ import annotations

import os
from typing import Any

from shoal.cli.output import print_json


def run(words: list[str], *, json: bool) -> None:
    """Read the run folders, print the list."""
    from shoal.analysis.run_list import list_runs

    records = list_runs(words)
    if json:
        print_json(records)
        return
    if not records:
        print("no run fits" if words else "there are no runs yet: train one first, e.g. shoal train cartpole")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("run", style="cyan", no_wrap=True)
    for title in ("algorithm", "env", "state"):
        table.add_column(title, overflow="fold")
    for title in ("steps", "best", "last", "score", "age"):
        table.add_column(title, justify="right", no_wrap=True)
    for record in records:
        words = [str(record[key] or "-") for key in ("run", "algorithm", "env", "state")]
        numbers = [_return(record[key]) for key in ("best", "last", "score")]
        table.add_row(*map(Text, words), f"{record['steps']:,}", *numbers, _age(record["age"]))
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 10_000
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _return(value: Any) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _age(seconds: float) -> str:
    """`5m`, `3h`, `12d`: the largest unit that fits."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
