"""Tables that workers want people to see."""

from __future__ import annotations

import io

from rich.console import Console

from shoal.api.experiment import StopConfig
from shoal.monitoring.live_panel import rows_table
from shoal.monitoring.progress import Progress
from shoal.monitoring.terminal import plain_line

ROWS = [
    {"name": "anna", "connected": True, "rounds": 12, "score": 143.25},
    {"name": "bert", "connected": False, "rounds": 3, "score": None},
]


def test_in_a_line() -> None:
    progress = Progress(StopConfig())
    progress.add({"step": 10, "update": 1, "time/elapsed": 1.0})
    assert "children" not in plain_line(progress)
    progress.tables["children"] = ROWS
    assert "children: anna 143.2, bert away" in plain_line(progress)
    progress.tables["children"] = []
    assert "children: none" in plain_line(progress)


def test_in_the_panel() -> None:
    console = Console(width=80, file=io.StringIO())
    console.print(rows_table("children", ROWS))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    head, anna, bert = (line.split() for line in printed.strip().splitlines())
    assert head == ["children", "connected", "rounds", "score"]
    assert anna == ["anna", "yes", "12", "143.2"]
    assert bert == ["bert", "no", "3", "-"]
