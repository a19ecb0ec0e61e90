"""Draws `live-view.svg` and `live-view-team.svg`: trains for real, shows the rows to the real TerminalView, keeps the last frame.

Run from the repository: `.venv/bin/python docs/images/live_view.py`.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from pathlib import Path

from rich.console import Console

import shoal
from shoal.api.experiment import load_experiment
from shoal.cli.demo import LIMITS
from shoal.monitoring.terminal import TerminalView
from shoal.recipes import find
from shoal.runs.facts import run_facts

HERE = Path(__file__).parent
SHARE = 0.8
"""How much of the run the figure shows."""


def draw(recipe: str, overrides: list[str], trial: str, title: str, name: str) -> None:
    """Train, replay, draw."""
    experiment = load_experiment(find(recipe), overrides)
    with tempfile.TemporaryDirectory() as root:
        outcome = shoal.train(experiment, trial=trial, root=root, quiet=True)
        rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
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
    """Both."""
    draw("cartpole", [], "brisk-herring-07", "shoal train cartpole", "live-view.svg")
    draw("spread", LIMITS, "agile-mullet-72", "make train", "live-view-team.svg")


if __name__ == "__main__":
    main()
