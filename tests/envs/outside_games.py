"""Scripted games as executables, started like builds."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def executable(folder: Path, script: str, name: str) -> Path:
    """One that runs a script of this folder; a link of its own, so that long interpreter paths do not matter."""
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "started with $*"\nexec "{sys.executable}" "{FOLDER / script}" "$@"\n')
    path.chmod(0o755)
    return path
