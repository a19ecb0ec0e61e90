"""Draws `live-view.svg` and `live-view-team.svg`: trains for real, shows the rows to the real TerminalView, keeps the last frame.

Run from the repository: `.venv/bin/python docs/images/live_view.py`, or with the folder of a run of `spread`.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

import shoal
from shoal.api.experiment import load_experiment
from shoal.monitoring.terminal import TerminalView
from shoal.recipes import find
from shoal.runs.facts import run_facts

HERE = Path(__file__).parent
SHARE = 0.8
"""How much of the run the figure shows."""


def rows_of(experiment: shoal.Experiment, given: Path | None) -> list[dict[str, Any]]:
    """Of a run that is there, or of one that is trained now."""
    with tempfile.TemporaryDirectory() as root:
        run = given or shoal.train(experiment, root=root, quiet=True).folder
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def draw(recipe: str, trial: str, title: str, name: str, given: Path | None = None) -> None:
    """Train, replay, draw."""
    experiment = load_experiment(find(recipe), [])
    rows = rows_of(experiment, given)
    console = Console(record=True, force_terminal=True, width=100, file=io.StringIO(), legacy_windows=False)
    view = TerminalView(run_facts(experiment, Path("runs", recipe, trial), here=False), console=console)
    view.state("running")
    for row in rows[: int(len(rows) * SHARE)]:
        view.write(row)
    console.export_text(clear=True)  # what was drawn on the way
    view.close()
    figure = console.export_svg(title=title, unique_id="shoal")
    # A figure must not fetch fonts: the reader's own monospace font does.
    figure = re.sub(r"@font-face \{.*?\}", "", figure, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    (HERE / name).write_text("\n".join(line.rstrip() for line in figure.splitlines()) + "\n")


def main() -> None:
    """Both, or that of the team alone from a run of `spread` that is there."""
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if given is None:
        draw("cartpole", "brisk-herring-07", "shoal train cartpole", "live-view.svg")
    draw("spread", "agile-mullet-72", "shoal train spread", "live-view-team.svg", given)


if __name__ == "__main__":
    main()
