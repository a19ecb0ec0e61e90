"""`shoal grafana`."""

from __future__ import annotations

from pathlib import Path

from shoal.cli.output import tell

FOLDER = Path(__file__).parents[1] / "monitoring" / "grafana"


def run(*, rules: bool) -> None:
    """Print a file that is shipped."""
    tell((FOLDER / ("alert-rules.yaml" if rules else "dashboard.json")).read_text().rstrip())
