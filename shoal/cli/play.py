"""`shoal play`."""

from __future__ import annotations

from typing import Any

from shoal.base.importing import importing
from shoal.cli.output import tell


def run(run: str, **options: Any) -> None:
    """Play until the person has had enough, then print what came of it."""
    with importing():
        from shoal.runs.play import play

    tell(play(run, **options).summary())
